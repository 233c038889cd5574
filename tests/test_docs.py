"""The code in the README and the docs runs as it stands, and all links, commands and messages are right."""

import ast
import inspect
import re
import shlex
import signal
from pathlib import Path

import pytest
import yaml

import tune_media as tm
from tests.benchmarks import report
from tests.support.doc_pages import OUTSIDE, PAGES, ROOT, anchors, blocks, commands, links, name_of, quoted
from tests.support.shell_commands import check
from tests.support.viewing import write_trial
from tune_media.callbacks.outbox import FOLDER_VARIABLE

COMMANDS = sorted({command for page in PAGES for command in commands(page)})
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def two_cpus(ray_session):
    """Take the CPUs of the tests' Ray but for two: what wants more does not start, as on a small machine."""
    from ray.util.placement_group import placement_group, remove_placement_group

    taken = placement_group([{"CPU": ray_session.cluster_resources()["CPU"] - 2}])
    assert taken.wait(60)
    yield
    remove_placement_group(taken)


@pytest.fixture
def sweeps(two_cpus, monkeypatch):
    """Return a list that gets the results of each sweep; one that does not end in five minutes is an error."""
    from ray import tune

    def fit(tuner):
        signal.alarm(300)
        try:
            ended.append(fit_for_ever(tuner))
        finally:
            signal.alarm(0)
        return ended[-1]

    def give_up(*_):
        raise TimeoutError("The sweep does not end: do its trials want more than two CPUs?")

    ended, fit_for_ever = [], tune.Tuner.fit
    monkeypatch.setattr(tune.Tuner, "fit", fit)
    handler = signal.signal(signal.SIGALRM, give_up)
    yield ended
    signal.signal(signal.SIGALRM, handler)


@pytest.fixture
def home(small_batches, tmp_path, monkeypatch):
    """A home folder with a small experiment, ``~/ray_results/my_sweep``."""
    for number in range(2):
        write_trial(tmp_path / "ray_results" / "my_sweep" / f"trial_{number}", number)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MUJOCO_GL", "")  # a page sets it
    monkeypatch.setattr("ray.train.constants.DEFAULT_STORAGE_PATH", str(tmp_path / "ray_results"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
def test_the_code_of_a_page_runs(page, home, sweeps):
    names = {"__name__": "__main__"}
    for above, code in blocks(page, "python"):
        short = re.sub(r'("training_iteration": )\d+', r"\g<1>2", code)
        exec(compile("\n" * above + short, page, "exec"), names)
    assert not any(sweep.errors for sweep in sweeps)
    assert len(sweeps) == sum(code.count("tune.Tuner(") for _, code in blocks(page, "python"))


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands") / "my_sweep"
    for number in range(2):
        write_trial(folder / f"trial_{number}", number)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_shell_command_of_the_docs_is_right(command, experiment, tmp_path):
    check(command, experiment, tmp_path)


def test_a_wrong_shell_command_is_found(experiment, tmp_path):
    for wrong in ("tune-media grid ~/ray_results/my_sweep", "pip install '.[typo]'", "make typo"):
        with pytest.raises((AssertionError, SystemExit)):
            check(wrong, experiment, tmp_path)


def test_the_backend_in_the_docs_is_the_one_that_the_contract_suite_runs_on():
    example = (ROOT / "examples" / "own_backend.py").read_text()
    backend = example[example.index("class FolderBackend") : example.index("def train")].strip()
    assert backend in (ROOT / "docs" / "howto" / "own-backend.md").read_text()


SHOWN = {"the clip": "<video", "a table": "<table", "DataFrames": "<table", "side by side": "PNG"}


def shown(value):
    """Return what Jupyter would show of a value; of a picture, how its file begins."""
    return value._repr_html_() if hasattr(value, "_repr_html_") else str(value._repr_png_()[:8])


def test_a_notebook_shows_what_its_page_says(home):
    page, cells = ROOT / "docs" / "howto" / "notebook.md", {}
    for _, code in blocks(page, "python"):
        *lines, last = ast.parse(code).body
        exec(compile(ast.Module(lines, []), str(page), "exec"), cells)
        seen = shown(eval(ast.unparse(last), cells))
        assert seen.count('<video src="data:video/mp4;base64,') == 1
        assert "return " in seen
    rows = re.findall(r"^\|(`.*)\|(.*)\|$", page.read_text(), re.MULTILINE)
    assert len(rows) >= 5
    for last_lines, told in rows:
        (sign,) = {sign for words, sign in SHOWN.items() if words in told}
        for line in re.findall("`(.*?)`", last_lines):
            assert sign in shown(eval(line, cells)), line


def test_the_rayjob_of_the_docs_runs_an_example_with_its_outbox_on_a_volume():
    ((_, text),) = blocks(ROOT / "docs" / "howto" / "kuberay.md", "yaml")
    spec = yaml.safe_load(text)["spec"]
    _, script, option, storage = shlex.split(spec["entrypoint"])
    example = ROOT / script.removeprefix("/opt/tune_media/")
    assert f'add_argument("{option}"' in example.read_text()
    assert storage.startswith("s3://")
    pod = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (variable,), (mount,) = container["env"], container["volumeMounts"]
    assert variable["name"] == FOLDER_VARIABLE
    assert Path(variable["value"]).parent == Path(mount["mountPath"])  # its own folder belongs to root
    assert mount["name"] == volume["name"]
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert [one["image"] for one in workers["template"]["spec"]["containers"]] == [container["image"]]


def arguments(function):
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters}


def test_the_table_of_arguments_has_those_of_the_signatures():
    wrapper = arguments(tm.gym.RecordEpisodes)
    assert arguments(tm.gym.RecordVectorEpisodes) == wrapper
    functions = {"record_episodes": arguments(tm.rllib.record_episodes), "RecordEpisodes": wrapper}
    functions["evaluate"] = arguments(tm.evaluate)
    lines = re.findall(r"^\|([^-].*)\|$", (ROOT / "docs" / "arguments.md").read_text(), re.MULTILINE)
    heading, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    assert heading[1:-1] == [f"`{name}`" for name in functions]
    words = {"required": inspect.Parameter.empty, "VideoOptions": tm.VideoOptions}
    told = {name: {} for name in functions}
    for argument, *defaults, meaning in rows:
        taken = [default for default in defaults if default]
        assert meaning, argument
        assert all(default.startswith("**") == (len(set(taken)) > 1) for default in taken), argument
        for name, default in zip(told, defaults, strict=True):
            if default:
                told[name][argument.strip("`")] = eval(default.strip("*`"), words)
    for name, known in functions.items():
        assert told[name] == known


def test_each_public_name_is_in_the_reference():
    reference = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.rst"))
    named = set(re.findall(r"tune_media\.(\w+)", reference))
    assert set(tm.__all__) - {"__version__"} <= named


def test_the_figures_about_performance_are_those_of_the_tables():
    assert report.page(report.sections_of(report.TABLES.read_text())) == report.PAGE.read_text()


def test_figures_of_older_code_are_not_on_the_page():
    sections = report.sections_of(report.TABLES.read_text())
    older = {name: section.replace("Measured on 2026", "Measured on 2025") for name, section in sections.items()}
    assert re.findall(r"^(?:\| .*\d|!\[)", report.page(sections), re.MULTILINE)
    assert not re.findall(r"^(?:\| .*\d|!\[)", report.page(older), re.MULTILINE)


def test_the_docs_are_short_enough_to_be_read():
    words = {name_of(page): len(page.read_text().split()) for page in PAGES if page not in OUTSIDE[1:]}
    assert "README.md" in words
    assert sum(words.values()) <= 15_550, sorted(words.items(), key=lambda page: -page[1])[:8]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_project_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def literals():
    """Return the fixed parts of all texts in the code of the package."""
    found = set()
    for path in (ROOT / "tune_media").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(re.split(r"%\.?\d*[a-z]|\.\.\.", node.value))
    return "\n".join(found)


def test_the_messages_in_troubleshooting_are_those_of_the_code():
    code = literals()
    messages = quoted(ROOT / "docs" / "troubleshooting.md")
    assert len(messages) >= 10
    for message in messages:
        for part in message.split("..."):
            if re.search(r"\w{3}", part):
                assert part.strip(" ,;") in code, message


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_each_example_is_listed_and_run(example):
    assert f"(../examples/{example.name})" in (ROOT / "docs" / "examples.md").read_text()
    assert example.stem in (ROOT / "tests" / "e2e" / "test_examples.py").read_text()
