import json
import pickle

from tune_media.values.problems import (
    FrameError,
    Message,
    Problem,
    Problems,
    argument,
    message_of,
    parts_of,
    remedy,
    take_problems,
)


def test_what_an_error_costs_is_counted_under_its_first_text_which_is_told_once():
    told = []
    problems = Problems(told.append)
    for step in range(3):
        problems.report_error("trigger=", ValueError(f"step {step}"), lost=1)
    assert problems.take() == [Problem("no clip: trigger= raised ValueError: step 0", lost=3)]
    assert len(told) == 1


def test_each_collection_has_what_is_new():
    problems = Problems()
    problems.report("a", lost=2)
    problems.report("b")
    problems.take()
    problems.report("a", lost=1)
    problems.report("b")
    assert problems.take() == [Problem("no clip: a", lost=1)]


def test_frames_of_different_envs_are_different_problems():
    problems = Problems()
    for env in ("X", "Y"):
        problems.report_error("a frame", FrameError(f"env {env!r} returned None from render()"))
    assert [problem.text for problem in problems.take()] == [
        f"no clip: env {env!r} returned None from render()" for env in ("X", "Y")
    ]


def test_addresses_and_endless_kinds_do_not_pile_up():
    problems = Problems()
    for _ in range(3):
        problems.report(f"{object()!r} fails", lost=1)
    for index in range(1000):
        problems.report(f"kind {index}")
    found = problems.take()
    assert found[0] == Problem("no clip: <object object> fails", lost=3)
    assert len(found) <= 50


def test_problems_of_all_sections_are_taken_and_leave_their_texts():
    result = {
        "env_runners": {"episodes": {"problems": (Problem("a", 1),), "best": "a path"}},
        "evaluation": {"env_runners": {"episodes": {"problems": (Problem("a", 2), Problem("b"))}}},
    }
    assert take_problems(result) == [Problem("a", 1), Problem("a", 2), Problem("b")]
    assert take_problems(result) == []
    assert result["evaluation"]["env_runners"]["episodes"]["problems"] == "a (2 episodes without a clip); b"


def test_a_users_own_key_of_that_name_is_left_alone():
    result = {"problems": ("mine", 3), "deep": {"problems": "text"}, "more": {"problems": ()}}
    assert take_problems(result) == []
    assert result == {"problems": ("mine", 3), "deep": {"problems": "text"}, "more": {"problems": ()}}


def test_a_message_names_arguments_in_the_words_of_python_or_of_a_command():
    message = "'a=b' is a file: " + remedy(
        "pass " + argument("gate(policy=...)") + " and " + argument("env=, or --env")
    )
    in_shell = message.with_options({"policy": "--policy", "env": "--env", "a": "--a"})
    assert message == "'a=b' is a file: pass gate(policy=...) and env=, or --env"
    assert message.remedy == "pass gate(policy=...) and env=, or --env"
    assert (in_shell, in_shell.remedy) == ("'a=b' is a file: pass --policy and --env", "pass --policy and --env")


def test_an_error_keeps_its_remedy_on_the_way_to_another_process():
    error = ValueError(argument("seeds=") + " is {empty}; " + remedy("leave it out."))
    pickled = message_of(pickle.loads(pickle.dumps(error)))
    of_json = Message(*json.loads(json.dumps(parts_of(message_of(error)))))
    for message in (pickled, of_json):
        told = message.with_options({"seeds": "--seeds"})
        assert (told, told.remedy) == ("--seeds is {empty}; leave it out.", "leave it out.")
    assert message_of(OSError("gone")).remedy == ""
