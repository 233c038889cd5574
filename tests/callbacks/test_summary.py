import sys

import gymnasium as gym
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.fake_trial import FakeTrial, run
from tests.support.loops import stepped
from tests.support.pictures import clip
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.session import MediaSession
from tune_media.callbacks.summary import Summary
from tune_media.values.problems import Problem


def last_line(tmp_path, capsys, results):
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), results)
    return capsys.readouterr().out.splitlines()[-1]


def test_a_file_that_two_keys_share_counts_once(tmp_path, capsys):
    shared = clip()
    results = [{"evaluation": {"episodes": {"best": shared, "last": shared}}}, {"again": shared}]
    assert "tune_media: stored 1 media file of 1 trial" in last_line(tmp_path, capsys, results)


def test_problems_in_a_result_are_the_reason_in_the_last_line(tmp_path, capsys, caplog):
    problem = Problem("env 'X' returned None from render(); create it with render_mode=\"rgb_array\"", lost=2)
    results = [{"evaluation": {"episodes": {"problems": (problem,)}}} for _ in range(3)]
    line = last_line(tmp_path, capsys, results)
    assert line == (
        "tune_media: nothing was recorded, because: env 'X' returned None from render(); create it with "
        'render_mode="rgb_array" (6 episodes without a clip).'
    )
    assert len([record for record in caplog.records if "returned None" in record.getMessage()]) == 1


def test_problems_beside_clips_are_named_too(tmp_path, capsys):
    results = [{"clip": clip(), "evaluation": {"episodes": {"problems": (Problem("a frame was cut", 1),)}}}]
    line = last_line(tmp_path, capsys, results)
    assert "stored 1 media file" in line
    assert line.endswith("Not recorded: a frame was cut (1 episode without a clip).")


def test_what_costs_no_episode_is_a_warning_beside_the_stored_clips(tmp_path, capsys):
    problems = (Problem("a clip shows nothing: every frame is black"), Problem("no clip: a fault", 2))
    line = last_line(tmp_path, capsys, [{"clip": clip(), "evaluation": {"episodes": {"problems": problems}}}])
    assert line.endswith(
        "Not recorded: no clip: a fault (2 episodes without a clip). Warnings: a clip shows nothing: every frame is "
        "black."
    )


def test_episodes_that_had_not_arrived_at_the_end_are_counted(tmp_path, capsys):
    results = [
        {"clip": clip(), "env_runners": {"episodes": {"num_pending": 4}}},
        {"evaluation": {"env_runners": {"episodes": {"num_unanswered": 2}}}},
        {"evaluation": {"env_runners": {"episodes": {"num_unanswered": 1}}}},
        {"env_runners": {"episodes": {"num_pending": 2}}},
        {"score": 1},
    ]
    assert last_line(tmp_path, capsys, results).endswith(
        "Not recorded: 2 episodes had not arrived when their trials ended; episodes of 1 env runner(s), which still "
        "played the last evaluation when their trials ended."
    )
    results = [{"env_runners": {"episodes": {"num_pending": 4}}}, {"env_runners": {}, "clip": clip()}]
    assert "Not recorded" not in last_line(tmp_path / "other", capsys, results)


@pytest.mark.parametrize(("imported", "first", "second"), [(True, "RLlib", "take()"), (False, "take()", "RLlib")])
def test_without_a_reason_the_last_line_says_what_to_add(tmp_path, capsys, monkeypatch, imported, first, second):
    modules = {name: module for name, module in sys.modules.items() if name != "ray.rllib"}
    monkeypatch.setattr(sys, "modules", modules | ({"ray.rllib": sys} if imported else {}))
    line = last_line(tmp_path, capsys, [{"score": 1}])
    assert line.startswith("tune_media: nothing was recorded, because: no result held any media: ")
    assert 0 < line.index(first) < line.index(second)


def test_a_time_limit_outside_the_recorder_is_named_and_not_the_script(tmp_path, capsys):
    """``take()`` was empty, and the last line said that the script does not report it."""
    recorder = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), keep="best")
    env, results = gym.wrappers.TimeLimit(recorder, 4), []
    for _ in range(4):
        stepped(env, 4)
        results.append({"score": 1, **recorder.take()})
    line = last_line(tmp_path, capsys, results)
    assert "nothing was recorded, because: episodes that no step ends have no return" in line
    assert "RecordEpisodes(TimeLimit(env, 4))" in line
    assert "no result held" not in line


@pytest.mark.parametrize("count", [1, 5, 7])
def test_what_was_lost_is_counted_and_the_first_are_named(count):
    summary = Summary(Faults(strict=False), "/results", "/results")
    summary.has_new = True
    for number in range(count):
        summary.lost(f"media/{number}.mp4")
    assert f"{count} could not be stored (media/0.mp4" in summary.line()
    assert (", ..." in summary.line()) == (count > 5)


def ended(trial, state=None, *, results=(), failed=False, is_started=True):
    callback = tm.JsonMediaLoggerCallback()
    if state:
        callback.set_state(state)
    if is_started:
        callback.log_trial_start(trial)
    for result in results:
        callback.log_trial_result(result["training_iteration"], trial, result)
        trial.last_result = result
    callback.log_trial_end(trial, failed=failed)
    state = callback.get_state()
    callback.on_experiment_end([trial])
    return state


@pytest.mark.parametrize("is_started", [True, False])  # Tune never starts one whose trainable cannot be made
def test_trials_that_fail_before_their_first_result_are_the_reason(tmp_path, capsys, is_started):
    trial = FakeTrial(tmp_path)
    ended(trial, failed=True, is_started=is_started)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == (
        f"tune_media: nothing was recorded, because: 1 trial(s) failed before their first result ({trial}); the error "
        "is in error.txt in the trial's folder."
    )
    ended(FakeTrial(tmp_path / "other"))
    assert "nothing was recorded, because: no trial reported a result." in capsys.readouterr().out


def test_a_restored_run_that_records_nothing_new_says_where_the_rest_is(tmp_path, capsys):
    state = ended(FakeTrial(tmp_path), results=[{"training_iteration": 1, "clip": clip()}])
    assert "stored 1 media file" in capsys.readouterr().out
    again = ended(FakeTrial(tmp_path), state, results=[{"training_iteration": 2}])
    line = capsys.readouterr().out.splitlines()[-1]
    assert "nothing new was recorded since the restore; what was recorded before is in " in line
    assert f"{tmp_path}/storage/<trial>/media" in line
    callback = tm.JsonMediaLoggerCallback()  # a second restore, with no trial left to run
    callback.set_state(again)
    callback.on_experiment_end([FakeTrial(tmp_path)])
    assert "nothing new was recorded since the restore" in capsys.readouterr().out


def test_media_that_were_all_lost_are_counted_and_named(tmp_path, capsys, monkeypatch):
    def full(session, rows, *, is_bounded=True):
        if any(row.kind == "media" for row in rows):
            raise OSError(28, "No space left on device")
        return append(session, rows, is_bounded=is_bounded)

    append = MediaSession.append
    monkeypatch.setattr(MediaSession, "append", full)
    line = last_line(tmp_path, capsys, [{"clip": clip()}])
    assert line.startswith("tune_media: nothing was stored: 1 could not be stored (media/train/clip/step_")


class Recorder:
    records_episodes = True


def test_a_recorder_that_saw_no_episode_end_is_not_asked_for_again(tmp_path, capsys):
    trial = FakeTrial(tmp_path, callbacks_class=Recorder())
    line = ended(trial, results=[{"training_iteration": 1}]) and capsys.readouterr().out.splitlines()[-1]
    assert "though the config has record_episodes(...). Either no episode of its sections= has ended, or, " in line


def test_a_result_that_cannot_be_read_is_the_reason_in_the_last_line(tmp_path, capsys, monkeypatch):
    def fail(*_, **more):
        raise TypeError("unexpected keyword argument")

    monkeypatch.setattr("tune_media.callbacks.session.take_media", fail)
    line = last_line(tmp_path, capsys, [{"clip": clip()}])
    assert "because: JSON: reading media from a result failed (TypeError: unexpected keyword argument)" in line
