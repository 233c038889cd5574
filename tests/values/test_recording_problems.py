from tune_media.values.recording_problems import RecordingProblem, take_problems


def test_problems_of_all_sections_are_counted_once_and_leave_their_texts():
    result = {
        "env_runners": {"episodes": {"problems": (RecordingProblem("a", 1),), "best": "a path"}},
        "evaluation": {"env_runners": {"episodes": {"problems": (RecordingProblem("a", 2), RecordingProblem("b"))}}},
    }
    assert take_problems(result) == (RecordingProblem("a", 3), RecordingProblem("b", 0))
    assert take_problems(result) == ()
    assert result["evaluation"]["env_runners"]["episodes"]["problems"] == "a (2 episodes without a clip); b"


def test_a_users_own_key_of_that_name_is_left_alone():
    result = {"problems": ("mine", 3), "deep": {"problems": "text"}, "more": {"problems": ()}}
    assert take_problems(result) == ()
    assert result == {"problems": ("mine", 3), "deep": {"problems": "text"}, "more": {"problems": ()}}
