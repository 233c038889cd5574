"""The skill for coding agents: it is copied whole, and true of the commands."""

import re
from pathlib import Path

from click.testing import CliRunner

import tune_media
from tune_media.cli import main


def test_the_skill_is_copied_and_a_changed_one_is_left_alone(tmp_path):
    def copy():
        return CliRunner().invoke(main, ["skill", str(tmp_path)])

    assert [copy().exit_code, copy().exit_code] == [0, 0]
    copied = tmp_path / "tune-media" / "SKILL.md"
    own = Path(tune_media.__file__).parent / "skill" / "SKILL.md"
    assert copied.read_text() == own.read_text()
    assert f"\nname: {copied.parent.name}\n" in copied.read_text()  # agents want these two alike
    copied.write_text("my own")
    assert copy().exit_code == 2
    assert copied.read_text() == "my own"


def test_the_skill_names_only_commands_and_options_that_there_are():
    text = (Path(tune_media.__file__).parent / "skill" / "SKILL.md").read_text()
    calls = [found.split() for found in re.findall(r"`tune-media ([^`]+)`", text)]
    assert len(calls) > 5
    for name, *words in calls:
        options = {option for parameter in main.commands[name].params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, name
