"""Overlay functions are called while an episode runs, at the steps whose frames are kept."""

import numpy as np
import pytest

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, only, play
from tune_media import VideoOptions
from tune_media.recording import overlay_lines
from tune_media.recording.episode import EpisodeStart, OnTape
from tune_media.recording.overlay_lines import Lines, NamedLine, by_name, names_of
from tune_media.recording.own_frames import OwnFrames
from tune_media.recording.pictures import Pictures
from tune_media.replay.tape import Tape


def taped(options, rewards, *, frames=None, **more):
    """Return the tape and the recorder of one episode that has these rewards."""
    recorder, env, tape = make_recorder(video=options, **more), CountingEnv({"length": len(rewards)}), Tape(0)
    frames = frames or (lambda: OwnFrames((), Pictures()))
    tape.began(0)
    recorder.start(0, EpisodeStart("e", only(env), fps=12, env=env, on_tape=OnTape(tape, frames=frames)))
    for reward in rewards:
        tape.acts(0)
        tape.has_stepped(0, reward)
        recorder.step(0, reward)
    recorder.end(0)
    return tape, recorder


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, [*range(11)]),
        ({"every": 4}, [0, 4, 8, 10]),
        ({"every": 4, "max_frames": 2}, [0, 4]),
        ({"every": 5}, [0, 5, 10]),
    ],
)
def test_functions_are_called_once_at_each_step_whose_frame_is_kept(options, steps):
    told = []
    options = VideoOptions(
        overlay=("step", lambda step: told.append(step.step) or f"R {step.episode_return}"), **options
    )
    tape, _ = taped(options, [1.0] * 10)
    assert told == steps
    assert [tape.lines.at(step) for step in range(11)] == [[f"R {float(s)}"] if s in steps else None for s in range(11)]
    assert tape.fps == 12


def test_a_trigger_that_declines_an_episode_calls_no_function():
    told = []
    recorder = make_recorder(
        video=VideoOptions(overlay=lambda step: told.append(step.step)), trigger=lambda index: index == 1
    )
    env = CountingEnv({"length": 2})
    for _ in range(3):
        play(recorder, env)
    assert told == [0, 1, 2]


def test_named_values_alone_make_no_lines_and_steps_are_only_counted():
    tape, _ = taped(VideoOptions(overlay=("step", "return")), [1.0])
    assert tape.lines is None
    recorder, env = make_recorder(video=VideoOptions(overlay="return"), collect=False), CountingEnv()
    for functions, is_counted in ((False, True), (True, False)):
        if functions:
            recorder = make_recorder(video=VideoOptions(overlay=str), collect=False)
        on_tape = OnTape(Tape(0), frames=lambda: OwnFrames((), Pictures()))
        recorder.start(0, EpisodeStart("e", only(env), on_tape=on_tape))
        assert (recorder.only_counted(0) is not None) == is_counted


def test_a_function_that_raises_costs_its_line_and_not_the_clip():
    recorder, env = (
        make_recorder(video=VideoOptions(overlay=(lambda step: step.nope, lambda step: "right"))),
        CountingEnv(),
    )
    for _ in range(2):
        assert play(recorder, env) is not None
    (problem,) = recorder.problems.take()
    missing = "a line of an overlay is missing: VideoOptions(overlay=...), a function, raised AttributeError"
    assert str(problem).startswith(missing) and problem.lost == 0
    with pytest.raises(AttributeError):
        play(make_recorder(strict=True, video=VideoOptions(overlay=lambda step: step.nope)), env)


def test_functions_that_take_long_are_told_once_with_the_remedies():
    video = VideoOptions(overlay=lambda step: "text")
    recorder, env = make_recorder(video=video), CountingEnv()
    play(recorder, env)
    recorder.clock.sampling, recorder._overlay.seconds = 20.0, 0.5
    play(recorder, env)
    assert not recorder.problems.take()
    recorder._overlay.seconds = 1.0
    play(recorder, env)
    play(recorder, env)
    (problem,) = recorder.problems.take()
    assert "overlay functions take 5% of the time" in str(problem)
    assert all(remedy in str(problem) for remedy in ("every=", "trigger=", "'return'"))


def test_above_64_kb_the_newest_text_stands_for_the_rest_and_the_note_says_so():
    told = []
    text = "x" * 9_000
    video = VideoOptions(overlay=lambda step: told.append(step.step) or f"{step.step} {text}", max_frames=12)
    tape, _ = taped(video, [0.0] * 20)
    assert told == [*range(8)]  # the eighth had no room
    assert [tape.lines.at(step)[0][:2] for step in (6, 7, 11)] == ["6 ", "6 ", "6 "]
    assert tape.lines.at(12) is None
    assert tape.lines.note == "from step 7 on, the text of overlay functions is older: there was room for 64 kB of it"
    again = Tape.unpacked(tape.packed()).lines
    assert (again.note, again.at(11)) == (tape.lines.note, tape.lines.at(11))
    assert len(tape.packed()) < 2_000


def test_a_direct_clip_has_the_same_texts_and_the_note():
    video = VideoOptions(overlay=lambda step: f"{step.step} " + "x" * 40_000, height=64)
    recorder, env = make_recorder(video=video), CountingEnv({"length": 3})
    record = play(recorder, env)
    (clip,) = recorder.candidates.take([record.id], [record.id])[record.id].clips.values()
    assert "from step 1 on, the text of overlay functions is older" in clip.note


def test_equal_texts_are_stored_once_and_odd_ones_can_be_stored():
    lines = Lines(["score"])
    for step in range(1000):
        lines.add(step, [("score 1", "score 2")[step // 500]])
    assert lines.nbytes == 14
    assert len(str(lines.packed()["texts"])) < 30
    half = "\ud800"
    tape, _ = taped(VideoOptions(overlay=lambda step: np.str_(half)), [1.0])
    assert Tape.unpacked(tape.packed()).lines.at(1) == ["?"]
    with pytest.raises(ValueError, match="cannot be read"):
        broken = taped(VideoOptions(overlay=str), [1.0])[0]
        broken.lines._texts.clear()
        Tape.unpacked(broken.packed())


def test_names_tell_functions_apart_and_stand_for_them_in_their_places():
    functions = (lambda step: "a", lambda step: "b")
    names = names_of(functions)
    assert len({*names}) == 2 and names[1] == f"{names[0]}#2"
    video = by_name(VideoOptions(overlay=(functions[0], "step", functions[1])))
    assert video.overlay == (NamedLine(names[0]), "step", NamedLine(names[1]))
    assert names_of([video.overlay[0], video.overlay[2]]) == names
    assert by_name(VideoOptions(overlay="step")).overlay == ("step",)
    assert overlay_lines.MAX_BYTES == 64 * 1024
