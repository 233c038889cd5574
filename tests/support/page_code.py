"""The page's code that touches no page, run by Node.js."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tune_media.viewing.episode_table import EpisodeTable
from tune_media.viewing.front_end import STATIC

MODULES = ("vendor/htm-preact", "filter", "model", "ui", "range", "steps", "configurations", "commands")
PROGRAM = """
const [vm, fs, readline] = ["vm", "fs", "readline"].map(require);
Object.assign(globalThis, { window: globalThis, module: undefined, exports: undefined });
globalThis.addEventListener = () => {};
globalThis.IntersectionObserver = class {};
for (const name of process.argv.slice(1)) vm.runInThisContext(fs.readFileSync(name, "utf8"), name);
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [code, argument] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: vm.runInThisContext(`(${code})`)(argument) }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
});
"""


def find_node() -> str | None:
    """Return Node.js: the system's, or the one that Playwright brings."""
    playwright = importlib.util.find_spec("playwright")
    own = Path(playwright.origin).parent / "driver" / "node" if playwright and playwright.origin else Path("none")
    return shutil.which("node") or (str(own) if own.exists() else None)


@contextlib.contextmanager
def page_code() -> Iterator[Callable[..., Any]]:
    """Yield a function that calls a JavaScript function of the page's code with an argument, both as JSON."""
    node = find_node()
    if node is None:
        pytest.skip("the page's code is run by Node.js")
    files = [str(STATIC / f"{name}.js") for name in MODULES]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen([node, "-e", PROGRAM, *files], **pipes) as process:
        assert process.stdin and process.stdout

        def run(function: str, argument: Any = None) -> Any:
            process.stdin.write(json.dumps([function, argument], allow_nan=False) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert "error" not in answer, answer["error"]
            return answer.get("value")

        yield run
        process.stdin.close()


FOUND = """([rows, text]) => {
  const read = rows.map(({ name, params }) => ({ name, ...tuneMedia.filter.readAll(params) }));
  const names = rows.flatMap(({ params }) => Object.keys(params));
  const own = (name) => (row) => (name === "trial" ? tuneMedia.model.namesOf(row) : row[name]);
  const find = (name) => (name === "trial" || names.includes(name) ? own(name) : null);
  const { test, problem } = tuneMedia.filter.parse(text, find, ({ name }) => name, names);
  return problem || read.map((row, at) => (test(row) ? at : -1)).filter((at) => at >= 0);
}"""


class Filtered:
    """Trials with hyperparameters, as strict JSON has them, that a filter is looked for in by both its readers."""

    def __init__(self, page_code: Callable[..., Any], params: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
        self._page_code = page_code
        self._rows = [{"name": name, "params": own} for name, own in zip(names, params, strict=True)]
        trials = EpisodeTable.of_rows([{"trial": name, "episode_return": 1.0} for name in names])
        self.table = EpisodeTable(trials.columns, params=params, configs=[*{name: 0 for own in params for name in own}])

    def found(self, text: str) -> Any:
        """Return the numbers of the trials that a filter lets through, on which the page and the table must agree."""
        found = self.table.found(text).tolist()
        assert found == self.on_page(text), text
        return found

    def on_page(self, text: str) -> Any:
        """Return what the page finds, or the problem that it has with the filter."""
        return self._page_code(FOUND, [self._rows, text])
