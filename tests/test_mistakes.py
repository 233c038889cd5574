"""Arguments that new users get wrong: each is refused by a message of ours, where it is given."""

import traceback
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm

PACKAGE = str(Path(tm.__file__).parent)
FRAMES = np.zeros((4, 32, 32, 3), np.uint8)


class Parallel:
    possible_agents = ("a", "b")

    def step(self, actions):
        return {}, {}, {}, {}, {}


class OldGym:
    """An env of a package that Gymnasium has replaced."""

    def reset(self):
        return np.zeros(2)

    def step(self, action):
        return np.zeros(2), 0.0, False, {}


class OldReset(OldGym, gym.Env):
    render_mode = "rgb_array"


class OldReturns(OldReset):
    def reset(self, *, seed=None, options=None):
        return np.zeros(2)


MISTAKES = [
    ("tm.rllib.record_episodes(sections=3)", "'evaluation', 'train' or both"),
    ("tm.rllib.record_episodes(keep=3)", "selector's name such as 'best'"),
    ("tm.rllib.record_episodes(trigger=10)", "selection.every(10)"),
    ("tm.rllib.record_episodes(trigger=tm.selection.every)", "made by a call"),
    ("tm.rllib.record_episodes(video=tm.VideoOptions)", "got the class VideoOptions"),
    ("tm.rllib.record_episodes(frame='')", "name of a method"),
    ("tm.rllib.record_episodes(trajectories='yes')", "True or False, got 'yes'"),
    ("tm.rllib.record_episodes(name='a/b')", "letters"),
    ("tm.rllib.record_episodes(env_indices=[-1])", "indices"),
    ("tm.rllib.record_episodes(seeds=3, sections='train')", "evaluation"),
    ("tm.rllib.record_episodes(collect=3)", "data/speed"),
    ("tm.rllib.record_episodes(window=0)", "a number of episodes or None, got 0"),
    ("tm.rllib.record_episodes(trigger=lambda a, b: True)", "called with one argument, the index of an episode"),
    ("tm.rllib.record_episodes(video=30)", "video= takes a tune_media.VideoOptions("),
    ("tm.rllib.record_episodes(video=None, frame='render')", "leave one of them out"),
    ("tm.rllib.record_episodes(frame={})", "name at least one view"),
    ("tm.rllib.record_episodes(frame={'left': 3})", "frame= takes a callable, "),
    ("tm.rllib.record_episodes(frame={'left': lambda: 0})", "called with one argument, the env"),
    ("tm.rllib.record_episodes().setup()", "callback of RLlib, not of Tune"),
    ("tm.VideoOptions(height='64')", "height=...) takes a whole number above 0"),
    ("tm.VideoOptions(every=2.5)", "every=...) takes a whole number above 0, for example every=4"),
    ("tm.VideoOptions(max_frames=True)", "max_frames=...) takes a whole number above 0 or None, got True"),
    ("tm.MediaOptions(raw_fps=None)", "takes a number above 0 (at most 1000), got None"),
    ("tm.MediaOptions(gif_width=1.5)", "whole number above 0 (at most 16384), got 1.5"),
    ("tm.JsonMediaLoggerCallback(media={'strict': True})", "media= takes tune_media.MediaOptions("),
    ("tm.JsonMediaLoggerCallback(media=tm.MediaOptions)", "got the class MediaOptions"),
    ("tm.JsonMediaLoggerCallback.setup()", "callbacks=[tune_media.JsonMediaLoggerCallback()]"),
    ("tm.JsonMediaLoggerCallback().on_environment_created", "not of RLlib: pass it to tune.RunConfig(callbacks=[...])"),
    ("tm.MediaLoggerCallback(tm.Backend)", "instance of a tune_media.Backend, got the class Backend"),
    ("tm.gym.RecordEpisodes('CartPole-v1')", "make it with gymnasium.make("),
    ("tm.gym.RecordEpisodes(env, 'clips', fps='30')", "for example fps=30"),
    ("tm.gym.RecordEpisodes(env, 'clips', step_trigger=lambda: True)", "one argument, the number of steps"),
    ("tm.gym.RecordEpisodes(env, env_indices=[3])", "of one sub-env: 0"),
    ("tm.gym.RecordVectorEpisodes(env)", "RecordEpisodes takes a single env"),
    ("tm.gym.FixedSeeds('CartPole-v1', 3)", "make it with gymnasium.make("),
    ("tm.Video(None)", "a THWC uint8 array, or HWC arrays"),
    ("tm.Video(FRAMES[0])", "For a single picture, use tune_media.Image"),
    ("tm.Video(FRAMES, fps=None)", "for example fps=30, got None"),
    ("tm.Video(FRAMES, options={'fps': 3})", "tune_media.VideoOptions or None, got {'fps': 3}"),
    ("tm.Video(FRAMES, episode='best')", "tune_media.EpisodeRecord"),
    ("tm.Video(FRAMES + 200, value_range=1.0)", "floats in 0..1"),
    ("tm.EpisodeRecord('e', 'high', 5)", "episode_return=...) takes a number, got 'high'"),
    ("tm.EpisodeRecord('e', 1.0, 5.5)", "episode_length=...) takes a whole number, got 5.5"),
    ("tm.Image('a.png')", "Image.from_png takes bytes"),
    ("tm.Image(FRAMES)", "For a clip, use tune_media.Video"),
    ("tm.Image.from_png('a.png')", "bytes of a PNG file"),
    ("tm.Image.heatmap('x')", "table of numbers"),
    ("tm.Image.heatmap([[1, 2]], scale=0)", "whole number of pixels"),
    ("tm.Histogram('abc')", "takes numbers"),
    ("tm.Histogram([[1], [1, 2]])", "rows of equal length"),
    ("tm.Histogram([1, 2], bins='auto')", "number of bins"),
    ("tm.Histogram([1, 2], bins=[3, 1])", "rising edges"),
    ("tm.Histogram([1, 2], weights=[1])", "one weight a value: 2, got 1"),
    ("tm.Histogram([1, 2], weights=[1, -1])", "finite weights=... from 0"),
    ("tm.Histogram.from_counts(3, 4)", "list of edges"),
    ("tm.Histogram.from_counts([0, 1, 2], [-1, 3])", "finite counts from 0"),
    ("tm.Artifact({'a': 1}, name='x.json')", "json.dumps"),
    ("tm.Artifact(b'x', name=5)", "name=...) takes text or None, for example 'buffer.msgpack', got 5"),
    ("tm.Artifact('no/such/file')", "Artifact(path): 'no/such/file' cannot be read: No such file or directory."),
    ("tm.load('nothing')", "pass the experiment's folder"),
    ("tm.load(None)", "a folder, a URI, a ResultGrid"),
    ("tm.selection.best(by=3)", "by=...) takes text"),
    ("tm.selection.every(2, start='1')", "index of an episode, got '1'"),
    ("tm.selection.failures('low')", "below=...) takes a number"),
    ("tm.selection.where(bool, 'x', limit='3')", "whole number of episodes"),
    ("tm.selection.Selector('x', 3)", "function of the candidates' records"),
    ("tm.rllib.record_episodes(keep=tm.selection.best)", "call it: tune_media.selection.best(...)"),
    ("tm.rllib.record_episodes(keep=lambda record: True)", "tune_media.selection.where(predicate, name='chosen')"),
    ("tm.rllib.record_episodes(keep=['bst'])", "'bst' is no selector; did you mean 'best'?"),
    ("tm.rllib.record_episodes(episode_trigger=bool)", "argument 'episode_trigger'; did you mean 'trigger'?"),
    ("tm.rllib.record_episodes(render='repaly')", "takes 'direct', 'replay' or 'auto', got 'repaly'"),
    ("tm.rllib.record_episodes.setup()", "callback of RLlib, not of Tune"),
    ("tm.rllib.record_episodes(metric='x')", "it takes 'sections', 'keep'"),
    ("tm.JsonMediaLoggerCallback(medai=None)", "argument 'medai'; did you mean 'media'?"),
    ("tm.MediaLoggerCallback(backed=None)", "argument 'backed'; did you mean 'backend'?"),
    ("tm.VideoOptions(heigth=64)", "argument 'heigth'; did you mean 'height'?"),
    ("tm.VideoOptions(overlay='steps')", "got 'steps'; did you mean 'step'?"),
    ("tm.VideoOptions(overlay=['step', 3])", "got 3; the names are 'step', 'reward'"),
    ("tm.gym.RecordEpisodes(env, folder='clips')", "argument 'folder'; did you mean 'video_folder'?"),
    ("tm.gym.RecordEpisodes(env, env_fn=env)", "env_fn=...) takes a function that makes an env like this one"),
    ("tm.gym.RecordEpisodes(env, frame='rendr')", "'rendr', which frame= names; did you mean 'render'?"),
    ("tm.gym.RecordEpisodes(env, PACKAGE + '/steps.py')", "cannot be made: it is a file"),
    ("tm.gym.RecordEpisodes(env, '/dev/null/clips')", "Pass a folder that you may write to"),
    ("tm.rllib.record_episodes(name='..')", "and not only dots, got '..'"),
    ("tm.rllib.record_episodes(frame={3: 'render'})", "views by their names, for example 'top', got 3"),
    ("tm.rllib.record_episodes(collect=lambda: {})", "called with one argument, the step"),
    ("tm.rllib.record_episodes(seeds=123456789)", "the seeds 0, ..., n-1; the seed n alone is seeds=[n]"),
    ("tm.rllib.record_episodes(seeds=range(10**12))", "at most 100,000 seeds, got range(0, 1000000000000)"),
    ("tm.rllib.record_episodes(env_indices=range(10**12))", "env_indices= takes indices 0, 1, ..., or None for all"),
    ("tm.gym.FixedSeeds(env, 123456789)", "at most 100,000 seeds, got 123456789"),
    ("tm.gym.RecordEpisodes(env, 'clips', name_prefix='\\0')", "part of a file name, got '\\x00'"),
    ("tm.VideoOptions(overlay=lambda: 'x')", "called with one argument, the step"),
    ("tm.VideoOptions(height=10**6)", "above 0 (at most 16384) or None, got 1000000"),
    ("tm.EpisodeRecord('e', 1.0, 5, metrics=[1])", "metrics=...) takes numbers by their names, such as {'speed_avg'"),
    ("tm.EpisodeRecord(3, -5, 1)", "episode_id=...) takes text"),
    ("tm.EpisodeRecord('e', 1.0, -5)", "episode_length=...) counts steps, got -5"),
    ("tm.EpisodeRecord('e', 1.0, 5, env_index=-3)", "env_index=...) takes an index, got -3"),
    ("tm.gym.RecordEpisodes(env, 'ok\\ud800')", "video_folder=...): 'ok\\ud800' holds half of a character"),
    ("tm.load('ok\\ud800')", "load(): 'ok\\ud800' holds half of a character"),
    ("tm.short_trial_names(3)", "trial_dirname_creator=tune_media.short_trial_names). It got 3."),
    ("tm.load('.', 'x')", "filesystem= takes a filesystem of pyarrow's"),
    ("tm.evaluate('.', progress=3)", "progress=...) takes a tune_media.evaluation.evaluation.Progress"),
    ("tm.evaluate('.', trials=3)", "trials=...) takes 'all', a name, or several, got 3"),
    ("tm.fork('.:x', '.', at=1, progress=3)", "progress=...) takes a tune_media.evaluation.fork.ForkProgress"),
    ("tm.gate('.', '.', progress=3)", "progress=...) takes a tune_media.evaluation.gate.GateProgress"),
    ("tm.evaluate('.', filesystem=3)", "filesystem= takes a filesystem of pyarrow's"),
    ("tm.Video.from_encoded(b'x')", "from_encoded(encoded) takes a clip of the streaming encoder"),
    ("tm.Video.from_encoded(tm.Video(FRAMES), note=3)", "from_encoded(note=...) takes text"),
    ("tm.Video.from_file('no.mp4')", "Video.from_file(path): 'no.mp4' cannot be read"),
    ("tm.Video(FRAMES).of_episode('e')", "of_episode(episode=...) takes a tune_media.EpisodeRecord"),
    ("tm.Video(FRAMES, layout=np.ones(2))", "layout must be one of"),
    ("tm.Image.from_png(tm.Image(FRAMES[0]).data, caption=3)", "from_png(caption=...) takes text"),
    ("tm.Histogram([1, 2]).quantile(2)", "quantile(share) takes a number from 0 to 1, got 2"),
    ("tm.Histogram([]).quantile('x')", "quantile(share) takes a number from 0 to 1, got 'x'"),
    ("tm.rllib.values_of(5)", "values_of(episode) takes an episode as RLlib's hooks get it, got 5"),
    ("tm.selection.best(name=[])", "Selector(name=...) takes text"),
    ("tm.selection.best(name='')", "Selector(name=...) is empty"),
    ("tm.selection.where(bool, name=[])", "name=...) takes text"),
    ("tm.selection.sometimes(0.5, seed=[])", "seed=...) takes a whole number or None, got []"),
    ("tm.selection.winners(5, [])", "takes several tune_media.EpisodeRecord"),
    ("tm.selection.winners([], iter([]))", "takes several tune_media.EpisodeRecord"),
    ("tm.steps.running('x', statistics=5)", "statistics=...) takes a sequence of names, got 5"),
    ("tm.export.to_tensorboard('.', 'out', progress=5)", "progress= takes a function that is called with one argument"),
    ("tm.export.to_tensorboard('.', 'out', options={})", "options=...) takes tune_media.MediaOptions or None, got {}"),
    ("tm.gym.RecordEpisodes(Parallel())", "Parallel is a multi-agent env of PettingZoo. Train it with RLlib"),
    ("tm.gym.RecordEpisodes(OldGym())", "whose step(action) returns five values. If it is one of the old Gym,"),
    ("tm.gym.RecordEpisodes(OldReset())", "whose reset(seed=..., options=...) returns an observation and an info"),
    ("tm.gym.RecordEpisodes(OldReturns()).reset()", "returns an observation and an info"),
    ("tm.gym.RecordEpisodes(OldReturns()).step(0)", "whose step(action) returns five values"),
    ("tm.Histogram([1, 2], bins=10**9)", "at most 100,000 bins"),
    ("tm.Image.heatmap([[1, 2]], scale=10**6)", "a side of more than 16384 pixels"),
    ("tm.load('sweep\\0')", "load() takes a path, and 'sweep\\x00' holds a NUL character"),
    ("tm.load('ftp://host/sweep')", "load() cannot open 'ftp://host/sweep'"),
    ("tm.VideoOption(fps=3)", "did you mean tune_media.VideoOptions?"),
    ("tm.record_episodes()", "it is tune_media.rllib.record_episodes"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES, ids=[mistake for mistake, _ in MISTAKES])
def test_a_mistake_gets_a_message_of_ours(mistake, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    with pytest.raises((TypeError, ValueError, OSError, AttributeError)) as caught:
        eval(mistake, {**globals(), "env": env})
    assert words in str(caught.value)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename.startswith(PACKAGE)
    assert (last.line or "").lstrip().startswith("raise ")  # no error of Python's from inside


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("tm.WandbMediaLoggerCallback(3)", "project=...) takes text"),
        ("tm.WandbMediaLoggerCallback(projct='p')", "has an argument 'projct'; did you mean 'project'?"),
        ("tm.WandbMediaLoggerCallback('p', exclude=['x'])", "has an argument 'exclude'; did you mean 'excludes'?"),
        ("tm.WandbMediaLoggerCallback('p', api_key=b'x')", "api_key=...) takes text or None, got a bytes"),
        ("tm.WandbMediaLoggerCallback('p', api_key_file='nothing')", "there is no file 'nothing'"),
        ("tm.MLflowMediaLoggerCallback(tracking_url='x')", "argument 'tracking_url'; did you mean 'tracking_uri'?"),
        ("tm.WandbMediaLoggerCallback('p', upload_timeout=None)", "takes a number of seconds above 0, got None"),
        ("tm.WandbMediaLoggerCallback('p', mode='offlne')", "no mode 'offlne'; did you mean 'offline'?"),
        ("tm.MLflowMediaLoggerCallback(tags='a')", "tags=...) takes a dict"),
        ("tm.MLflowMediaLoggerCallback(tags={3: 'a'})", "a name, takes text, for example 'team', got 3"),
        ("tm.WandbMediaLoggerCallback('p', dir='runs')", "takes no dir=: each run's folder is in <trial>/wandb"),
        ("tm.WandbMediaLoggerCallback('p', id='mine')", "takes no id=: the run of each trial has the trial's id"),
        ("tm.WandbMediaLoggerCallback('p\\ud800')", "project=...): 'p\\ud800' holds half of a character"),
        ("tm.MLflowMediaLoggerCallback(tags={'a\\ud800': 'b'})", "tags={...}): 'a\\ud800=b' holds half"),
    ],
)
def test_a_mistake_with_a_tracker_gets_a_message_of_ours(mistake, words):
    pytest.importorskip("mlflow" if "MLflow" in mistake else "wandb")
    with pytest.raises((TypeError, ValueError, FileNotFoundError)) as caught:
        eval(mistake, {"tm": tm})
    assert words in str(caught.value)


def test_a_logger_callback_in_rllibs_config_says_where_it_belongs():
    """RLlib refuses an instance with its repr, and calls a class and looks for hooks in what it returns."""
    from ray.rllib.algorithms.ppo import PPOConfig

    with pytest.raises(ValueError, match=r"got <JsonMediaLoggerCallback, for tune\.RunConfig\(callbacks=\[\.\.\.\]\)>"):
        PPOConfig().callbacks(tm.JsonMediaLoggerCallback())
    with pytest.raises(ValueError, match=r"got \[record_episodes\(name='small'\), <JsonMediaLoggerCallback, for tune"):
        PPOConfig().callbacks([tm.rllib.record_episodes(name="small"), tm.JsonMediaLoggerCallback()])
    with pytest.raises(AttributeError, match=r"pass it to tune\.RunConfig\(callbacks=\[\.\.\.\]\)"):
        _ = tm.JsonMediaLoggerCallback().on_algorithm_init


def test_a_recorder_that_is_not_called_says_so():
    """RLlib calls ``record_episodes`` and looks for hooks in what it returns."""
    with pytest.raises(AttributeError, match=r"call it: config\.callbacks\(tune_media\.rllib\.record_episodes\(\)\)"):
        _ = tm.rllib.record_episodes().on_environment_created
    assert not hasattr(tm.rllib.record_episodes(), "on_episode_end")


def test_a_recorder_as_the_function_of_one_hook_says_where_it_belongs():
    """RLlib takes any object for ``on_train_result=``, and calls it with the hook's arguments."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.callbacks.utils import make_callback

    config = PPOConfig().callbacks(on_train_result=tm.rllib.record_episodes())
    with pytest.raises(TypeError, match=r"pass it without a name, as config\.callbacks\(tune_media"):
        make_callback(
            "on_train_result",
            callbacks_functions=config.callbacks_on_train_result,
            kwargs={"algorithm": None, "metrics_logger": None, "result": {}},
        )
