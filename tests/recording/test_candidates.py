import copy
import json
import pickle

import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, play
from tune_media import selection
from tune_media.recording.episode import Candidate, EpisodeStart
from tune_media.steps import FINAL, Named, Rule
from tune_media.storage.episode_files import EpisodeReport, RecorderEpisodes, report_json
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, thinned

BEST_AND_WORST = (selection.best(3), selection.worst(3))


def play_return(recorder, value, more=None):
    """Play an episode of one step with a return and without frames; return the id of its record."""
    recorder.start(0, EpisodeStart("e"))
    recorder.step(0, value)
    return recorder.end(0, more).id


def test_losers_are_dropped_as_soon_as_they_cannot_win():
    recorder, env = make_recorder(("best", "worst")), CountingEnv({"length": 5})
    for value in (3, 1, 2, 5, 4):
        play(recorder, env, rewards=[value] * 5)
    assert sorted(record.episode_return for record in recorder.candidates.records()) == [5, 25]


def test_taking_drops_what_took_part_and_keeps_what_ended_since():
    recorder, env = make_recorder(), CountingEnv()
    seen = [play(recorder, env).id for _ in range(2)]
    later = play(recorder, env)
    assert list(recorder.candidates.take(seen[:1], seen)) == seen[:1]
    assert [record.id for record in recorder.candidates.records()] == [later.id]


def test_the_best_stays_the_best_if_another_selector_holds_more_episodes_than_the_bound(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_CANDIDATES", 5)
    recorder = make_recorder(("best", "first", "median"), video=None, problems_are_collected=True)
    played = [play_return(recorder, value) for value in (4, 9, 0, 1, 2, 3, 4, 5, 6)]
    held = recorder.candidates.records()
    assert [record.id for record in held] == [*played[:2], *played[-3:]]
    assert [record.episode_return for record in selection.best().choose(held)] == [9]
    (problem,) = recorder.problems.take()
    assert problem.text == (
        "the oldest clips are dropped: more than 5 episodes are held for keep='median' until the round ends (or take() "
        "is called): the choice is now among the newest 5; keep='best' holds fewer"
    )
    assert problem.lost == 4


def states_of(recorder):
    """Return how the clip of each candidate is kept."""
    return ["held" if one.held else "encoded" if one.clips else "none" for one in recorder.candidates.held()]


@pytest.mark.parametrize(("keep", "state"), [("best", "held"), ("median", "held"), (("best", "all"), "encoded")])
def test_a_clip_is_encoded_when_it_is_taken_unless_all_are(keep, state):
    recorder, env = make_recorder(keep), CountingEnv({"length": 5})
    id = play(recorder, env).id
    assert states_of(recorder) == [state]
    assert recorder.candidates.nbytes > 100
    (clip,) = recorder.candidates.take([id], [id])[id].videos().values()
    assert (clip.frames, clip.frame_stride, clip.note) == (6, 1, None)


def test_of_many_held_episodes_the_oldest_are_encoded_and_none_is_dropped(monkeypatch):
    recorder, env = make_recorder("median", problems_are_collected=True), CountingEnv({"length": 5})
    played = [play(recorder, env).id]
    monkeypatch.setattr("tune_media.recording.candidates.MAX_HELD_BYTES", 2.5 * recorder.candidates.nbytes)
    before = recorder.clock.rendering
    played += [play(recorder, env).id for _ in range(4)]
    assert states_of(recorder) == ["encoded"] * 3 + ["held"] * 2
    assert recorder.clock.rendering > before
    taken = recorder.candidates.take(played, played)
    assert [len(taken[id].clips) for id in played] == [1] * 5
    assert recorder.problems.take() == []


def fail_to_encode(monkeypatch):
    def finish(self):
        raise RuntimeError("no memory")

    monkeypatch.setattr("tune_media.encoding.encoder.VideoEncoder.finish", finish)


def test_a_held_clip_that_cannot_be_encoded_is_lost_and_it_is_said(monkeypatch):
    why = "encoding its frames raised RuntimeError: no memory"
    recorder, env = make_recorder("median", problems_are_collected=True), CountingEnv({"length": 5})
    fail_to_encode(monkeypatch)
    id = play(recorder, env).id
    taken = recorder.candidates.take([id], [id])[id]
    assert (taken.no_clip, taken.clips, taken.held) == (why, {}, {})
    monkeypatch.setattr("tune_media.recording.candidates.MAX_HELD_BYTES", 0)
    play(recorder, env)
    assert recorder.candidates.records() == []
    assert [data.record.note for data in recorder.candidates.data()] == [f"no clip: {why}"]
    assert [(problem.text, problem.lost) for problem in recorder.problems.take()] == [(f"no clip: {why}", 1)]


def test_a_strict_recorder_raises_what_encoding_raises(monkeypatch):
    recorder = make_recorder("best", strict=True)
    fail_to_encode(monkeypatch)
    id = play(recorder, CountingEnv({"length": 5})).id
    with pytest.raises(RuntimeError, match="no memory"):
        recorder.candidates.take([id], [id])


def test_a_copy_of_a_recorder_has_the_held_clips_too():
    recorder = make_recorder("best")
    id = play(recorder, CountingEnv({"length": 5})).id
    copied = copy.deepcopy(recorder)
    taken = [one.candidates.take([id], [id])[id].clips[""] for one in (recorder, copied)]
    assert [clip.frames for clip in taken] == [6, 6]


def test_candidates_are_bounded_in_bytes_too(monkeypatch):
    recorder, env = make_recorder(("all", "best"), problems_are_collected=True), CountingEnv({"length": 5})
    played = [play(recorder, env, rewards=[9.0] * 5)]
    size = recorder.candidates.nbytes
    monkeypatch.setattr("tune_media.recording.candidates.MAX_CANDIDATE_BYTES", 3.5 * size)
    played += [play(recorder, env, rewards=[float(number)] * 5) for number in range(5)]
    held = recorder.candidates.records()
    assert held[0] == played[0], "the best stays"
    assert held[1:] == played[-len(held) + 1 :]
    assert 1 < len(held) < 5
    (problem,) = recorder.problems.take()
    assert problem.lost == 6 - len(held)
    assert "MB of clips and steps are held for keep='all' until" in problem.text
    notes = [data.record.note for data in recorder.candidates.data() if data.record.note]
    assert len(notes) == problem.lost
    assert all("MB of clips and steps were held in its round, and it was the oldest" in note for note in notes)


def test_a_clip_that_is_larger_than_the_bound_stays_if_it_is_the_only_one(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_CANDIDATE_BYTES", 1)
    recorder, env = make_recorder(), CountingEnv({"length": 5})
    played = [play(recorder, env).id for _ in range(2)]
    assert [record.id for record in recorder.candidates.records()] == played[-1:]


@pytest.mark.parametrize(
    ("bound", "keep", "values", "held", "told"),
    [
        ("MAX_CANDIDATES", "all", range(9), 5, "5 episodes are held for keep='all' until"),
        ("MAX_CANDIDATES", BEST_AND_WORST, range(6), 5, "5 episodes are held for keep='best', 'worst' until"),
        ("MAX_EPISODES", "all", range(9), 5, "more than 5 episodes ended in one round (or since the last take())"),
        ("MAX_EPISODES", "last", range(9), 1, "more than 5 episodes ended in one round (or since the last take())"),
    ],
)
def test_of_more_episodes_than_the_bound_the_newest_are_held(monkeypatch, bound, keep, values, held, told):
    monkeypatch.setattr(f"tune_media.recording.candidates.{bound}", 5)
    recorder = make_recorder(keep, video=None, problems_are_collected=True)
    played = [play_return(recorder, value) for value in values]
    assert [record.id for record in recorder.candidates.records()] == played[-held:]
    data = [episode.record.id for episode in recorder.candidates.data()]
    assert data == (played[-5:] if bound == "MAX_EPISODES" else played)
    (problem,) = recorder.problems.take()
    assert told in problem.text


def test_the_steps_and_pictures_of_a_candidate_count_in_its_bytes():
    sizes = []
    for trajectories in (False, True):
        recorder = make_recorder(video=None, trajectories=trajectories)
        recorder.start(0, EpisodeStart("e"))
        recorder.step(0, 1.0, observation=np.zeros(1000))
        recorder.end(0)
        sizes.append(recorder.candidates.nbytes)
    assert sizes[1] - sizes[0] >= 8000
    candidate = Candidate(EpisodeRecord("e", 1.0, 1), {}, media={"map": tm.Image(np.zeros((4, 4, 3), np.uint8))})
    assert candidate.nbytes == candidate.media["map"].nbytes > 0


def test_the_values_of_many_episodes_stay_within_bounds(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_ROUND_POINTS", 40_000)
    recorder = make_recorder("best", video=None)
    info = {"data": {"running": dict.fromkeys("abcde", 1.0)}}
    for episode in range(200):
        recorder.start(0, EpisodeStart(f"e{episode}"))
        for _ in range(60):
            recorder.step(0, 1.0, None, info)
        recorder.end(0)
    data = recorder.candidates.data()
    assert len(data) == 200
    assert sum(len(series) for episode in data for series in episode.series.values()) <= 40_000
    assert all(series.count == 60 for episode in data[::50] for series in episode.series.values())
    assert all(episode.record.metrics["a_sum"] == 60 for episode in data)
    batch = EpisodeBatch(tuple(thinned(data, 2_000)))
    assert len(pickle.dumps(batch)) < 1.2 * 2**20
    text = report_json(EpisodeReport("t", 1, 1, [RecorderEpisodes("train", "r", batch)]), "data-00000001.json")
    assert len(json.loads(text)) == 200


def test_the_data_of_a_candidate_stay_until_it_is_taken(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_EPISODES", 5)
    recorder = make_recorder("best", video=None)
    winner, *_ = [play_return(recorder, value) for value in (9, 0, 1, 2, 3, 4, 5)]
    data = [episode.record.id for episode in recorder.candidates.data()]
    assert (len(data), data[0]) == (5, winner)
    assert list(recorder.candidates.take([winner], data)) == [winner]
    later = play_return(recorder, 1)
    assert [record.id for record in recorder.candidates.records()] == [later]


def test_arrays_weigh_what_they_are(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_ROUND_POINTS", 100_000)
    recorder = make_recorder("best", video=None)
    info = {"media": {"map": np.zeros((64, 64))}, "data": {"final": {"map": np.zeros((64, 64))}}}
    for episode in range(60):
        recorder.start(0, EpisodeStart(f"e{episode}"))
        recorder.step(0, 1.0, None, {"media": info["media"]} if episode % 2 else {"data": info["data"]})
        recorder.end(0)
    data = recorder.candidates.data()
    assert len(data) == 60
    assert sum(len(pickle.dumps(episode)) for episode in data) < 4 * 2**20
    assert any("left out" in (episode.record.note or "") for episode in data)


def test_episodes_that_ended_before_a_round_are_late_and_cannot_be_chosen():
    recorder = make_recorder(video=None)
    play_return(recorder, 1.0)
    recorder.candidates.begin_round()
    assert recorder.candidates.records() == []
    (episode,) = recorder.candidates.data()
    assert episode.is_late


def test_values_that_hooks_add_after_the_end_are_in_the_data_and_the_record():
    values = {}
    recorder = make_recorder(video=None)
    play_return(recorder, 1.0, lambda held: [held.add(value) for value in values.values()])
    values["late"] = Named("late", 3.0, Rule(3.0, FINAL))
    (episode,) = recorder.candidates.data()
    (record,) = recorder.candidates.records()
    assert episode.record.metrics["late"] == record.metrics["late"] == 3.0


def test_a_hook_whose_values_cannot_be_read_costs_them_alone_and_is_named():
    recorder = make_recorder(video=None, problems_are_collected=True)

    def more(values):
        values.add(Named("early", 2.0, Rule(2.0, FINAL)))
        raise RuntimeError("no such field")

    play_return(recorder, 1.0, more)
    (record,) = recorder.candidates.records()
    assert record.metrics["early"] == 2.0
    (problem,) = recorder.problems.take()
    assert "no such field" in problem.text
    assert problem.lost == 0


def test_a_predicate_is_asked_again_if_a_hook_adds_numbers_after_the_end():
    clean = selection.where(lambda record: not record.metrics.get("crashes"), name="clean")
    recorder, crashes = make_recorder(keep=clean, video=None), []

    def more(values):
        for number in crashes:
            values.add(Named("crashes", number, Rule("crashes", FINAL)))
        return ()

    play_return(recorder, 1.0, more)
    assert clean.choose(recorder.candidates.records())
    crashes.append(2)
    recorder.candidates.data()
    assert not clean.choose(recorder.candidates.records())
