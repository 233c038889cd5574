from tune_media.recording.problems import FrameError, Problems
from tune_media.values.recording_problems import RecordingProblem


def test_what_an_error_costs_is_counted_under_its_first_text(caplog):
    problems = Problems("episodes")
    for step in range(3):
        problems.report_error("trigger=", ValueError(f"step {step}"), lost=1)
    assert problems.take() == [RecordingProblem("no clip: trigger= raised ValueError: step 0", lost=3)]
    assert len(caplog.records) == 1


def test_each_collection_has_what_is_new_and_nothing_is_logged(caplog):
    problems = Problems("episodes", are_collected=True)
    problems.report("a", lost=2)
    problems.report("b")
    problems.take()
    problems.report("a", lost=1)
    problems.report("b")
    assert problems.take() == [RecordingProblem("no clip: a", lost=1)]
    assert not caplog.records


def test_frames_of_different_envs_are_different_problems():
    problems = Problems("episodes", are_collected=True)
    for env in ("X", "Y"):
        problems.report_error("a frame", FrameError(f"env {env!r} returned None from render()"))
    assert [problem.text for problem in problems.take()] == [
        f"no clip: env {env!r} returned None from render()" for env in ("X", "Y")
    ]


def test_addresses_and_endless_kinds_do_not_pile_up():
    problems = Problems("episodes", are_collected=True)
    for _ in range(3):
        problems.report(f"{object()!r} fails", lost=1)
    for index in range(1000):
        problems.report(f"kind {index}")
    found = problems.take()
    assert found[0] == RecordingProblem("no clip: <object object> fails", lost=3)
    assert len(found) <= 50
