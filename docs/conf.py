"""Builds the site from the pages in this folder: ``make docs``, then open docs/_build/html/index.html.

The pages are plain Markdown, so that they can be read on GitHub, too. Three things are added here: the table of
contents (``NAVIGATION``), the source of the examples, and the pages that lie outside this folder (``OUTSIDE``).
"""

from __future__ import annotations

import ast
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from tune_media import __version__

ROOT = Path(__file__).parents[1]
NAVIGATION = {
    "Start": ["doors", "quickstart", "tutorial", "examples", "howto/notebook", "why"],
    "Record": ["recording", "howto/env-data", "howto/multi-agent", "howto/games", "howto/offline", "old-stack"],
    "Without RLlib": ["howto/sb3", "howto/cleanrl", "howto/rsl-rl", "howto/outside-rllib"],
    "Look": ["viewing", "reading", "tapes", "howto/evaluate", "howto/gate", "howto/fork", "howto/agents"],
    "Log": ["logging", "howto/wandb", "howto/mlflow", "howto/trackio", "howto/own-backend"],
    "Run": [
        "howto/headless",
        "howto/slurm",
        "howto/kuberay",
        "howto/cluster-s3",
        "howto/restore-pbt",
        "howto/disk-use",
    ],
    "Migrate": ["migrate/record-video", "migrate/ray-example", "migrate/monitor-gym", "migrate/earlier-states"],
    "Details": ["arguments", "files", "json", "faults", "limits", "matrix", "performance", "benchmarks", "api/index"],
    "Help": ["troubleshooting", "terms", "support", "security", "contributing", "conduct", "changelog"],
}
OUTSIDE = {
    "index": "README.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "conduct": "CODE_OF_CONDUCT.md",
    "changelog": "CHANGELOG.md",
    "benchmarks": "tests/benchmarks/tables.md",
    "matrix": "tests/e2e/matrix.md",
    "json": "tune_media/skill/json.md",
}

README = re.sub(r"<!--.*?-->\n*", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)

project = "tune_media"
author = copyright = "The tune_media authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"tune_media {version}"
html_static_path = ["_static"]
html_favicon = html_logo = "_static/logo.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
pygments_style, pygments_dark_style = "default", "github-dark"

smartquotes_action = "D"  # only dashes: messages are quoted letter by letter
myst_enable_extensions = ["html_image"]  # <img width=...>, for pictures that are smaller on the page
myst_heading_anchors = 4  # the anchors that GitHub gives
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "class"
napoleon_use_ivar = True
napoleon_numpy_docstring = False


def with_contents(text: str) -> str:
    """Add the table of contents, which GitHub would show as a block of code."""
    for caption, pages in NAVIGATION.items():
        text += "\n```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```\n"
    return text


def with_examples(text: str) -> str:
    """Add the source of each example, under the sentence that says what it shows."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        text += f"\n(example-{path.stem})=\n## {path.name}\n\n{docstring.partition(chr(10))[0]}\n"
        text += f"\n```{{literalinclude}} ../examples/{path.name}\n```\n"
    return text


def inside(text: str, folder: str) -> str:
    """Replace links that leave ``docs/`` by links to pages of the site.

    >>> inside("[sweep](../examples/cartpole_sweep.py), [changes](../CHANGELOG.md)", "")
    '[sweep](#example-cartpole_sweep), [changes](changelog.md)'
    """
    text = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", r"](#example-\1)", text)
    up = "../" * folder.count("/")
    for page, name in OUTSIDE.items():
        text = re.sub(r"\]\((?:\.\./)+" + re.escape(name), f"]({up}{page}.md", text)
    return text


def read_page(app: Any, name: str, source: list[str]) -> None:
    """Change the text of a page for the site; Sphinx calls this when it has read the file."""
    if name in OUTSIDE:
        app.env.note_dependency(str(ROOT / OUTSIDE[name]))  # or a page that was built before would stay
        text = re.sub(r"(\]\(|src=\")(?:\.\./)*docs/", r"\1", (ROOT / OUTSIDE[name]).read_text())
        for page, file in OUTSIDE.items():
            text = text.replace(f"]({file}", f"]({page}.md")
        source[0] = with_contents(text) if name == "index" else text
        return
    text = inside(source[0], f"{name.rpartition('/')[0]}/" if "/" in name else "")
    source[0] = with_examples(text) if name == "examples" else text


def write_llms_txt(app: Any, error: Exception | None) -> None:
    """Write the list of all pages that language models look for, llms.txt."""
    if error is not None or app.builder.format != "html":
        return
    told = README.partition("\n\n")[2].partition("\n\n")[0].replace("\n", " ")
    lines = ["# tune_media", "", f"> {told}"]
    for caption, pages in NAVIGATION.items():
        titles = [f"- [{app.env.titles[page].astext()}]({page}.html)" for page in pages]
        lines += ["", f"## {caption}", "", *titles]
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n")


def name_arguments(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Call the attributes of a dataclass its parameters, as they are when one makes it."""
    if kind == "class" and is_dataclass(thing) and "Attributes:" in lines:
        lines[lines.index("Attributes:")] = "Args:"


def setup(app: Any) -> None:
    """Connect these functions: for each page, and for each docstring, before its sections are read."""
    app.connect("autodoc-process-docstring", name_arguments, priority=100)
    app.connect("source-read", read_page)
    app.connect("build-finished", write_llms_txt)
