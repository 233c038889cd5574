import gc
import weakref

import numpy as np
import pytest

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, only, play, take_all
from tune_media import VideoOptions, selection
from tune_media.recording.episode import EpisodeStart


def test_an_episode_that_is_never_finished_is_dropped_and_counted():
    recorder, env = make_recorder(), CountingEnv()
    env.reset()
    recorder.start(0, EpisodeStart("a", only(env), fps=12))
    recorder.step(0, env.step(0)[1])
    play(recorder, env)  # starts in the same slot
    env.reset()
    recorder.start(1, EpisodeStart("b", only(env), fps=12))
    recorder.step(1, env.step(0)[1])
    recorder.abandon_all()
    assert recorder.end(1) is None
    assert (len(recorder.candidates.records()), recorder.abandoned) == (1, 2)


def test_strict_lets_the_failure_through():
    with pytest.raises(ValueError, match="uint8"):
        play(make_recorder(strict=True), CountingEnv({"render_mode": None}))


@pytest.mark.parametrize(
    "options",
    [
        {"trigger": lambda first, second: True},
        {"keep": selection.where(lambda record: record.metrics["missing"] > 0, name="won")},
        {"keep": (selection.best(by="retrun"), selection.worst(by="retrun"))},
        {"keep": selection.best(by="episode_id")},
    ],
)
def test_a_users_function_that_raises_costs_the_episode_once_and_one_warning(options, caplog):
    recorder, env = make_recorder(**{"keep": "all", **options}), CountingEnv()
    for _ in range(3):
        play(recorder, env)
    assert recorder.candidates.records() == []
    assert len(caplog.records) == len(recorder.plan.selectors)
    assert sum(problem.lost for problem in recorder.problems) == 3
    assert all(data.record.note.startswith("no clip: ") for data in recorder.candidates.data())
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        play(make_recorder(**{"keep": "all", "strict": True, **options}), env)


def test_an_episode_that_makes_a_selector_raise_costs_no_other_its_clip():
    keep = selection.Selector("low", lambda records: [max(records, key=lambda record: 1 / record.episode_return)])
    recorder, env = make_recorder(keep), CountingEnv({"length": 1})
    held = play(recorder, env, rewards=[1.0])
    assert play(recorder, env, rewards=[0.0]) is None
    assert recorder.candidates.records() == [held]
    assert [data.record.note is None for data in recorder.candidates.data()] == [True, False]


def test_what_is_abandoned_or_taken_is_freed():
    recorder, env = make_recorder(), CountingEnv()
    env.reset()
    recorder.start(0, EpisodeStart("a", only(env), fps=12))
    recorder.step(0, env.step(0)[1])
    encoder = weakref.ref(next(iter(recorder._running[0].clips._encoders.values())))
    recorder.abandon_all()
    play(recorder, env, slot=1)
    candidate = weakref.ref(next(iter(recorder.candidates._held.values())))
    take_all(recorder)
    gc.collect()
    assert encoder() is None
    assert candidate() is None


def test_the_memory_of_running_episodes_is_bounded_and_what_is_left_out_is_counted(monkeypatch):
    recorder, envs = make_recorder(trajectories=True, problems_are_collected=True), [CountingEnv() for _ in range(5)]
    monkeypatch.setattr("tune_media.recording.recorder.MAX_BYTES", 8 * 2**20)  # an encoder takes 2 to 3 MB
    for slot, env in enumerate(envs):
        env.reset()
        recorder.start(slot, EpisodeStart(f"e{slot}", only(env), fps=12))
    for slot, env in enumerate(envs):
        env.step(0)
        recorder.step(slot, 1.0)
        recorder.end(slot)
    notes = [data.record.note for data in recorder.candidates.data()]
    recorded = [note is None for note in notes]
    assert recorded == sorted(recorded, reverse=True), "the first ones have clips"
    assert 0 < sum(recorded) < 5
    assert len(recorder.candidates.records()) == sum(recorded)
    assert "MB on an env runner: record fewer at a time (env_indices=, trigger=)" in notes[-1]
    (problem,) = recorder.problems.take()
    assert problem.lost == 5 - sum(recorded)
    play(recorder, envs[0])
    assert recorder.problems.take() == [], "there is room again"


@pytest.mark.parametrize(("trajectories", "count"), [(True, 1), (False, 2)])
def test_without_clips_only_steps_take_memory(monkeypatch, trajectories, count):
    recorder = make_recorder(video=None, trajectories=trajectories)
    monkeypatch.setattr("tune_media.recording.recorder.MAX_BYTES", 2000)
    for slot in range(2):
        recorder.start(slot, EpisodeStart(f"e{slot}", observation=np.zeros(200)))
        recorder.step(slot, 1.0, 0, observation=np.zeros(200))
    assert [recorder.end(slot) is not None for slot in range(2)] == [True] * count + [False] * (2 - count)


def test_frames_that_are_out_of_reach_cost_the_clip_and_the_record_says_why_and_what_else_is_known_of_it():
    recorder = make_recorder(problems_are_collected=True)
    recorder.start(0, EpisodeStart("e", no_clip="the frames are in other processes"))
    recorder.step(0, 2.0)
    assert recorder.end(0, metrics={"extra": 1.0}, episode_return=3.0, note="cut") is None
    (data,) = recorder.candidates.data()
    record, why = data.record, "no clip: the frames are in other processes"
    assert (record.episode_return, record.metrics, record.note) == (3.0, {"extra": 1.0}, f"cut; {why}")
    assert [(problem.text, problem.lost) for problem in recorder.problems.take()] == [(why, 1)]


def test_an_episode_that_grows_too_large_while_it_runs_is_cut_and_says_so(monkeypatch):
    recorder, env = make_recorder(trajectories=True, problems_are_collected=True), CountingEnv({"length": 100})
    recorder.start(0, EpisodeStart("e", only(env), fps=12, observation=env.reset()[0]))
    monkeypatch.setattr("tune_media.recording.recorder.MAX_BYTES", 1)
    for _ in range(100):
        recorder.step(0, 1.0, 0, observation=env.step(0)[0])
    recorder.end(0)
    (candidate,) = recorder.candidates.held()
    clip = candidate.clips[""]
    assert (clip.frames, clip.note) == (65, "cut after 65 frames (no memory left)")
    assert candidate.rewards is None
    assert len(candidate.trajectory) == 65
    assert "the rest of a clip is left out" in recorder.problems.take()[0].text


def test_an_episode_whose_last_frame_raises_is_over_all_the_same_if_strict():
    shown = [np.zeros((16, 16, 3), np.uint8)]
    recorder = make_recorder(strict=True, video=VideoOptions(every=4))
    recorder.start("slot", EpisodeStart("0", lambda: {"": shown[0]}, 30.0))
    recorder.step("slot", 1.0)
    shown.clear()
    with pytest.raises(IndexError):
        recorder.end("slot")
    assert recorder.running("slot") is None
