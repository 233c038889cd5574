import time

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, only
from tune_media import selection
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.recorder import Starts
from tune_media.recording.render_clock import RenderClock


def test_a_seed_belongs_to_the_episode_that_was_reset_with_it():
    recorder, env = make_recorder(), CountingEnv()
    seeds = []
    for given in (7, 7, 7, 8):  # what the generator states; only a change is a new seed
        env.reset()
        recorder.start(0, EpisodeStart("a", only(env), fps=12, seed=given))
        recorder.step(0, env.step(0)[1])
        seeds.append(recorder.end(0).seed)
    assert seeds == [7, None, None, 8]


def test_rendering_keeps_to_its_budget():
    class SlowToRender(CountingEnv):
        def render(self):
            time.sleep(0.004)
            return super().render()

    recorder, env = make_recorder(trigger=selection.RenderBudget(0.2)), SlowToRender({"length": 5})
    for _ in range(40):
        env.reset()
        recorder.start(0, EpisodeStart("a", only(env), fps=12))
        for _ in range(env.length):
            time.sleep(0.002)
            recorder.step(0, env.step(0)[1])
        recorder.end(0)
    assert 1 < len(recorder.candidates.records()) < 20


def test_the_time_until_an_episode_starts_is_a_part_of_sampling():
    recorder = make_recorder(video=None)
    recorder.start(0, EpisodeStart("a"))
    time.sleep(0.01)
    recorder.start(0, EpisodeStart("b"))
    assert recorder.clock.sampling >= 0.01


def test_counts_of_a_checkpoint_never_go_back():
    starts = Starts(None, RenderClock())
    for _ in range(3):
        starts.is_wanted("ahead")
    starts.go_on_from({"ahead": 1, "behind": 7})
    assert starts.counts() == {"ahead": 3, "behind": 7}


def test_a_slots_seed_is_not_new_to_it_because_another_slot_had_it():
    starts = Starts(None, RenderClock())
    assert [starts.own_seed(slot, 5) for slot in (0, 1, 0, 1)] == [5, 5, None, None]
