"""The metadata: what is imported is declared, what is declared is imported, and what it says is true."""

import ast
import configparser
import functools
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tune_media as tm

ROOT = Path(__file__).parents[1]
RELEASING = (ROOT / "RELEASING.md").read_text()
IMPORTED_AS = {
    "axe-playwright-python": "axe_playwright_python",
    "pillow": "PIL",
    "ale-py": "ale_py",
    "msgpack-numpy": "msgpack_numpy",
    "stable-baselines3": "stable_baselines3",
    "rsl-rl-lib": "rsl_rl",
    "pyyaml": "yaml",
    "sb3-contrib": "sb3_contrib",
    "trove-classifiers": "trove_classifiers",
}
OF_EXTRAS = {  # library: the extras that bring it; all other libraries come with the package itself
    "PIL": {"overlay", "rllib", "tensorboard", "wandb", "mlflow"},
    "gymnasium": {"gym", "rllib"},
    "matplotlib": {"figure"},
    "mlflow": {"mlflow"},
    "requests": {"mlflow"},
    "ray": {"tune", "rllib", "wandb", "mlflow", "trackio", "tensorboard"},
    "rsl_rl": {"rsl-rl"},
    "tensorboard": {"tensorboard", "folders"},
    "tensorboardX": {"tune", "rllib", "wandb", "mlflow", "trackio", "tensorboard"},
    "trackio": {"trackio"},
    "wandb": {"wandb"},
    "werkzeug": {"viewer", "tensorboard"},
    "yaml": {"folders"},
}
NOT_IMPORTED = {"torch"}  # RLlib imports it, and does not declare it
TOOLS = {  # of the extras dev and docs, run and not imported: the file that names it, and its name there
    "build": ("Makefile", "-m build"),
    "furo": ("docs/conf.py", "furo"),
    "mypy": ("Makefile", "bin/mypy"),
    "myst-parser": ("docs/conf.py", "myst_parser"),
    "pandas-stubs": ("setup.cfg", "strict = True"),  # pandas has no annotations of its own
    "pre-commit": ("CONTRIBUTING.md", "pre-commit install"),
    "pytest-cov": (".ci/coverage", "--cov="),
    "pytest-xdist": ("setup.cfg", "--dist loadfile"),
    "ruff": ("Makefile", "ruff check"),
    "sphinx": ("Makefile", "-m sphinx"),
    "sphinx-copybutton": ("docs/conf.py", "sphinx_copybutton"),
    "twine": ("Makefile", "twine check"),
}


def setup_cfg():
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg")
    return found


def libraries(requirements):
    names = [re.match(r"[\w-]+", line)[0] for line in requirements.strip().split("\n") if not line.startswith("%")]
    return {IMPORTED_AS.get(name, name) for name in names}


@functools.cache
def foreign_imports(*folders):
    found = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        found |= set(re.findall(r'importorskip\("(\w+)', text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"tune_media", "tests", "_typeshed"}


def test_the_package_declares_what_it_imports_and_nothing_else():
    required = libraries(setup_cfg()["options"]["install_requires"])
    imported = foreign_imports("tune_media")
    assert imported - set(OF_EXTRAS) - {"pydantic_core"} == required  # which only pydantic has imported


def test_each_extra_holds_what_it_is_for():
    extras = setup_cfg()["options.extras_require"]
    own = {name: libraries(extras.get(name)) for name in extras if name not in ("all", "dev", "docs")}
    assert set().union(*own.values()) - NOT_IMPORTED == set(OF_EXTRAS)
    for library, names in OF_EXTRAS.items():
        assert {extra for extra, brought in own.items() if library in brought} == names
        assert library in foreign_imports("tune_media")
    in_all = set(re.findall(r"%\((\w+)\)s", extras.get("all", raw=True)))
    others = {"rsl-rl", "trackio", "tune"}  # 300 MB of other libraries; an older Pillow; in most extras
    assert in_all == set(own) - others
    assert {extra for _, extra in tm._NAMES.values() if extra} <= OF_EXTRAS["ray"]


def test_the_extra_for_rllib_leaves_the_release_of_gymnasium_to_ray():
    """Ray needs one release. With a bound of ours, pip takes the newest first, and then tries each release of Ray."""
    assert "gymnasium[classic-control]" in setup_cfg()["options.extras_require"].get("rllib", raw=True).split("\n")


def test_the_tests_and_examples_need_nothing_else():
    extras = setup_cfg()["options.extras_require"]
    declared = libraries(extras.get("dev", raw=True)) | libraries(setup_cfg()["options"]["install_requires"])
    brought = {"pygame", "fsspec", "boto3", "mujoco", "pydantic"}  # by gymnasium[classic-control], ray[tune], moto[s3]
    brought |= {"coverage", "yaml"}  # by pytest-cov, ray
    brought |= {"flatland", "pyglet"}  # of the table of installed envs, which leaves out what is not there
    brought |= {"tensordict"}  # by rsl-rl-lib
    brought |= foreign_imports("tests/support/foreign")  # scripts that no test runs
    imported = foreign_imports("tests", "examples", "docs")
    assert imported - declared - set(OF_EXTRAS) - NOT_IMPORTED - brought == set()


def test_each_library_for_developers_is_imported_or_run():
    extras = setup_cfg()["options.extras_require"]
    declared = libraries(extras.get("dev", raw=True)) | libraries(extras.get("docs", raw=True))
    assert declared - foreign_imports("tests", "examples", "docs") == set(TOOLS)
    for place, name in TOOLS.values():
        assert name in (ROOT / place).read_text()


def test_the_settings_of_pip_are_passed_on_to_uv(tmp_path, monkeypatch):
    file = tmp_path / "pip.conf"
    own = "index-url = file:///not-this\nextra-index-url = file:///a file:///b\nfind-links = /x /y"
    file.write_text(f"[global]\n{own}\ncert = not-this.pem\n[install]\ncert = own.pem\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "file:///mirror")
    settings = runpy.run_path(str(ROOT / ".ci" / "install.py"))["settings_for_uv"]()
    wanted = {"UV_DEFAULT_INDEX": "file:///mirror", "UV_INDEX": "file:///mirror file:///a file:///b"}
    wanted |= {"UV_FIND_LINKS": "/x,/y"}
    assert settings.items() >= {**wanted, "SSL_CERT_FILE": "own.pem"}.items()
    assert "UV_TORCH_BACKEND" not in settings


def test_the_version_is_in_one_place():
    version = runpy.run_path(str(ROOT / "tune_media" / "_version.py"))["__version__"]
    assert setup_cfg()["metadata"]["version"] == "attr: tune_media._version.__version__"
    files = [ROOT / name for name in ("setup.cfg", "setup.py", "pyproject.toml", "Makefile", "tune_media/__init__.py")]
    assert not [path.name for path in files if version in path.read_text()]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()  # a format that cannot look it up


def test_each_classifier_exists():
    known = pytest.importorskip("trove_classifiers").classifiers
    named = setup_cfg()["metadata"]["classifiers"].strip().split("\n")
    assert set(named) <= known
    oldest = setup_cfg()["options"]["python_requires"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in named


def setup_py(monkeypatch):
    given = {}
    monkeypatch.setattr(pytest.importorskip("setuptools"), "setup", lambda **options: given.update(options))
    return given, runpy.run_path(str(ROOT / "setup.py"))


def test_readme_on_a_package_index_has_no_link_into_the_repository(monkeypatch):
    given, _ = setup_py(monkeypatch)
    text = given["long_description"]
    assert not re.findall(r'(\]\(|src=")(?!https?:)[^)]+', text)
    renderer = pytest.importorskip("readme_renderer.markdown")
    page = renderer.render(text)
    assert page is not None
    assert page.count("<h2") == len(re.findall(r"^## ", text, re.MULTILINE))


def test_readmes_links_lead_to_the_repository_once_its_url_is_known(monkeypatch):
    make = setup_py(monkeypatch)[1]["readme_for_index"]
    text = (
        '![The viewer](docs/a.png)\n\n<img src="docs/b.gif" width="9">\n\n'
        "See [logging](docs/logging.md#x), [us](#more) and [Ray](https://ray.io)."
    )
    assert make(text, "https://h/p") == (
        "![The viewer](https://h/p/raw/main/docs/a.png)\n\n"
        '<img src="https://h/p/raw/main/docs/b.gif" width="9">\n\n'
        "See [logging](https://h/p/blob/main/docs/logging.md#x), [us](#more) and [Ray](https://ray.io)."
    )
    assert make(text, None) == "See logging, us and [Ray](https://ray.io)."


def test_an_index_shows_links_once_the_url_is_known(monkeypatch):
    given, names = setup_py(monkeypatch)
    assert given["project_urls"] == names["project_urls"](names["repository"])
    assert names["project_urls"](None) == {}
    links = names["project_urls"]("https://h/me/p")
    assert (links["Issues"], links["Documentation"]) == ("https://h/me/p/issues", "https://me.github.io/p/")


def test_the_conda_recipe_asks_for_what_setup_cfg_asks_for():
    recipe = (ROOT / ".ci/conda/recipe.yaml").read_text()
    named = {"msgpack-python": "msgpack"}
    run = re.findall(r"- ([\w-]+) (.*)", recipe.partition("\n  run:\n")[2].partition("\ntests:\n")[0])
    options = setup_cfg()["options"]
    oldest = options["python_requires"].removeprefix(">=")
    assert f'python_min: "{oldest}"' in recipe
    wanted = ["python>=${{ python_min }}", *options["install_requires"].split()]
    assert sorted(f"{named.get(name, name)}{bound}" for name, bound in run) == sorted(wanted)


def test_a_release_fills_the_conda_recipe(tmp_path):
    sdist = tmp_path / "tune_media-1.2.3.tar.gz"
    sdist.write_bytes(b"an sdist")
    subprocess.run([ROOT / ".ci/conda/fill", tmp_path], check=True, capture_output=True)
    recipe = (tmp_path / "recipe.yaml").read_text()
    assert 'version: "1.2.3"' in recipe
    assert f"sha256: {hashlib.sha256(b'an sdist').hexdigest()}" in recipe
    assert "/releases/download/v${{ version }}/tune_media-${{ version }}.tar.gz" in recipe  # conda-forge's bot finds it
    assert not {"VERSION", "SHA256"} & set(re.findall(r"\w+", recipe))
    assert set(re.findall(r"\b(?:REPOSITORY|MAINTAINER|[A-Z]+_URL)\b", recipe)) <= {"REPOSITORY", "MAINTAINER"}
    assert recipe.startswith("schema_version")


OTHERS = r"\b(?:TODO|TBD|FIXME|XXX|CHANGEME|YOUR [A-Z]{3,}|example\.org)\b"  # nor may there be one of these
PUBLISHED = (".ci", ".github", "docs", "examples", "skills", "tune_media")
BINARY = (".gif", ".png", ".pyc")


def placeholders():
    """Return each word that stands for what a person fills in, with its file, from the table of RELEASING.md."""
    rows = re.findall(r"^\| (`.*`) \| (`.*`) \| ", RELEASING, re.MULTILINE)
    named = [[re.findall("`(.*?)`", cell) for cell in row] for row in rows]
    return {(word, file) for words, files in named for word in words for file in files}


def placeholders_in(root):
    words = "|".join(sorted({word for word, _ in placeholders()}))
    files = [path for path in root.iterdir() if path.name not in ("RELEASING.md", "THIRD_PARTY_NOTICES")]
    files += [path for name in PUBLISHED for path in (root / name).rglob("*") if "_build" not in path.parts]
    texts = {path: path.read_text(errors="ignore") for path in files if path.is_file() and path.suffix not in BINARY}
    found = re.compile(rf"\b(?:{words})\b|{OTHERS}")
    return {(word, str(path.relative_to(root))) for path, text in texts.items() for word in found.findall(text)}


def test_all_that_a_person_fills_in_is_in_the_table_of_releasing():
    if "url" in setup_cfg()["metadata"]:  # a person has filled it in
        assert placeholders_in(ROOT) <= placeholders()
    else:
        assert placeholders_in(ROOT) == placeholders()


@pytest.mark.slow
def test_the_commands_of_releasing_fill_all_in_and_the_package_is_right_then(tmp_path):
    copy = tmp_path / "copy"
    others = shutil.ignore_patterns(".?*", "_build", "build", "dist", "__pycache__", "*.png", "*.gif", "*.mp4", "*.db")
    shutil.copytree(ROOT, copy, ignore=others)
    shutil.copytree(ROOT / ".ci", copy / ".ci")
    names, release = re.findall(r"^```sh\n(export .*?)^(?:git diff|make release)", RELEASING, re.MULTILINE | re.DOTALL)
    script = names.replace("'...@...'", "'us@lab'").replace("'..., ...'", "'A. B, C. D'").replace("'...'", "'lab'")
    subprocess.run(["bash", "-euc", script + release], cwd=copy, check=True)
    assert {file for _, file in placeholders_in(copy)} == {name for _, name in placeholders() if "upstream" in name}
    assert "go to us@lab." in (copy / "docs/support.md").read_text()
    assert "<!--" not in (copy / "README.md").read_text()
    assert re.search(r"^date-released: [\d-]{10}$", (copy / "CITATION.cff").read_text(), re.MULTILINE)
    options = ["--noconftest", "-q", "-n", "0", "-k", "index or conda or version or person", "tests/test_packaging.py"]
    told = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=copy, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
