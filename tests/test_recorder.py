import gc
import time
import weakref

import numpy as np
import pytest

from tests.envs import CountingEnv, read_frame
from tune_media import VideoOptions, selection
from tune_media.encoding import decode_video
from tune_media.recorder import EpisodeRecorder, Plan
from tune_media.selection import as_selectors, every


def make_recorder(keep="all", **options):
    return EpisodeRecorder(Plan("episodes", as_selectors(keep), **options))


def play(recorder, env, slot=0, rewards=None, seed=None):
    """Play one episode of a CountingEnv and return its record."""
    env.reset(seed=seed)
    recorder.start(slot, f"episode-{env.episode}", only(env), fps=12, seed=seed)
    for step in range(env.length):
        _, reward, *_ = env.step(0)
        recorder.step(slot, reward if rewards is None else rewards[step])
    return recorder.end(slot)


def only(env):
    """Return what renders an env that has one view."""
    return lambda: {"": env.render()}


def take_all(recorder):
    ids = [record.id for record in recorder.records()]
    return {id: kept.shown for id, kept in recorder.take(ids, ids).items()}


def test_a_clip_holds_the_reset_frame_and_every_step_once():
    recorder, env = make_recorder(), CountingEnv()
    record = play(recorder, env)
    clip = take_all(recorder)[record.id]
    assert clip.frames == record.episode_length + 1
    assert [read_frame(frame).step for frame in decode_video(clip.data)] == list(range(env.length + 1))
    assert clip.episode.episode_return == pytest.approx(env.total)
    assert clip.id == record.id


def test_losers_are_dropped_as_soon_as_they_cannot_win():
    recorder, env = make_recorder(("best", "worst")), CountingEnv({"length": 5})
    for value in (3, 1, 2, 5, 4):
        play(recorder, env, rewards=[value] * 5)
    assert sorted(record.episode_return for record in recorder.records()) == [5, 25]


def test_taking_drops_what_took_part_and_keeps_what_ended_since():
    recorder, env = make_recorder(), CountingEnv()
    seen = [play(recorder, env).id for _ in range(2)]
    later = play(recorder, env)
    assert list(recorder.take(seen[:1], seen)) == seen[:1]
    assert [record.id for record in recorder.records()] == [later.id]


def test_episodes_in_different_slots_do_not_mix():
    recorder, envs = make_recorder(), [CountingEnv({"length": 4}), CountingEnv({"length": 7})]
    for slot, env in enumerate(envs):
        env.reset()
        recorder.start(slot, str(slot), only(env), fps=12)
    records = {}
    for step in range(7):
        for slot, env in enumerate(envs):
            if step < env.length:
                recorder.step(slot, env.step(0)[1])
            if step + 1 == env.length:
                records[slot] = recorder.end(slot)
    clips = take_all(recorder)
    for slot, env in enumerate(envs):
        counts = [read_frame(frame) for frame in decode_video(clips[records[slot].id].data)]
        assert [count.step for count in counts] == list(range(env.length + 1))
        assert {count.env for count in counts} == {env.number}


def test_an_episode_that_is_never_finished_is_dropped_and_counted():
    recorder, env = make_recorder(), CountingEnv()
    env.reset()
    recorder.start(0, "a", only(env), fps=12)
    recorder.step(0, env.step(0)[1])
    play(recorder, env)  # starts in the same slot
    env.reset()
    recorder.start(1, "b", only(env), fps=12)
    recorder.step(1, env.step(0)[1])
    recorder.abandon_all()
    assert recorder.end(1) is None
    assert (len(recorder.records()), recorder.abandoned) == (1, 2)


def test_an_episode_that_the_trigger_declines_is_never_rendered():
    recorder, env = make_recorder(trigger=every(3)), CountingEnv()
    renders = []
    for _ in range(6):
        before = env.renders
        play(recorder, env)
        renders.append(env.renders > before)
    assert renders == [True, False, False] * 2
    assert len(recorder.records()) == 2


def test_records_without_frames():
    recorder, env = make_recorder(video=None), CountingEnv()
    record = play(recorder, env)
    assert env.renders == 0
    assert take_all(recorder) == {record.id: record}


def test_a_render_that_fails_costs_its_episode_and_one_warning(caplog):
    recorder, env = make_recorder(), CountingEnv({"render_mode": None})
    for _ in range(3):
        play(recorder, env)
    assert recorder.records() == []
    assert len(caplog.records) == 1
    assert len(recorder.new_problems()) == 1
    assert recorder.new_problems() == []


def test_strict_lets_the_failure_through():
    with pytest.raises(ValueError, match="uint8"):
        play(make_recorder(strict=True), CountingEnv({"render_mode": None}))


def test_options_reach_the_clip():
    recorder = make_recorder(video=VideoOptions(fps=5, height=64, width=96))
    record = play(recorder, CountingEnv())
    clip = take_all(recorder)[record.id]
    assert (clip.fps, clip.width, clip.height) == (5, 96, 64)


def test_a_seed_belongs_to_the_episode_that_was_reset_with_it():
    recorder, env = make_recorder(), CountingEnv()
    seeds = []
    for given in (7, 7, 7, 8):  # what the generator states; only a change is a new seed
        env.reset()
        recorder.start(0, "a", only(env), fps=12, seed=given)
        recorder.step(0, env.step(0)[1])
        seeds.append(recorder.end(0).seed)
    assert seeds == [7, None, None, 8]


def test_the_env_may_reuse_its_buffer():
    env = CountingEnv()
    env.reset()
    first = env.render()
    env.step(0)
    assert env.render() is first
    assert not np.array_equal(read_frame(env.render()), (env.number, env.episode, 0, 0))


@pytest.mark.parametrize(
    "options",
    [
        {"trigger": lambda first, second: True},
        {"keep": selection.where(lambda record: record.metrics["missing"] > 0, name="won")},
        {"keep": selection.best(by="retrun")},
        {"keep": selection.best(by="episode_id")},
        {"video": VideoOptions(overlay=lambda facts: facts.nothing)},
    ],
)
def test_a_users_function_that_raises_costs_the_episode_and_one_warning(options, caplog):
    recorder, env = make_recorder(**{"keep": "all", **options}), CountingEnv()
    for _ in range(3):
        play(recorder, env)
    assert recorder.records() == []
    assert len(caplog.records) == 1
    with pytest.raises((TypeError, KeyError, ValueError, AttributeError)):
        play(make_recorder(**{"keep": "all", "strict": True, **options}), env)


def test_rendering_keeps_to_its_budget():
    class SlowToRender(CountingEnv):
        def render(self):
            time.sleep(0.004)
            return super().render()

    recorder, env = make_recorder(trigger=selection.RenderBudget(0.2)), SlowToRender({"length": 5})
    for _ in range(40):
        env.reset()
        recorder.start(0, "a", only(env), fps=12)
        for _ in range(env.length):
            time.sleep(0.002)
            recorder.step(0, env.step(0)[1])
        recorder.end(0)
    assert 1 < len(recorder.records()) < 20


def test_what_is_abandoned_or_taken_is_freed():
    recorder, env = make_recorder(), CountingEnv()
    env.reset()
    recorder.start(0, "a", only(env), fps=12)
    recorder.step(0, env.step(0)[1])
    encoder = weakref.ref(next(iter(recorder._running[0].clips._encoders.values())))
    recorder.abandon_all()
    play(recorder, env, slot=1)
    candidate = weakref.ref(next(iter(recorder._finished.values())))
    take_all(recorder)
    gc.collect()
    assert encoder() is None
    assert candidate() is None


def test_candidates_that_nobody_takes_are_bounded(monkeypatch, caplog):
    monkeypatch.setattr("tune_media.recorder.MOST_CANDIDATES", 5)
    recorder, env = make_recorder("all"), CountingEnv()
    played = [play(recorder, env).id for _ in range(9)]
    assert [record.id for record in recorder.records()] == played[-5:]
    assert len(caplog.records) == 1
