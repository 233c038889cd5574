"""Prints the public API as text: names with their signatures, the help of each command, and its JSON fields.

``python -m tests.support.public_api > tests/data/public_api.txt`` writes the golden file anew.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

import tune_media
from tests.support.doc_pages import ROOT

GOLDEN = ROOT / "tests" / "data" / "public_api.txt"
PACKAGE = tune_media.__name__
MODULES = ("", ".export", ".gym", ".rllib", ".rsl_rl", ".selection", ".steps")
SPECIAL = ("__call__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__")


def api() -> str:
    """Return the whole text; it ends with a line break."""
    return "\n".join([*_python(), *_commands(), *_json(), ""])


def _python() -> Iterator[str]:
    named: dict[type, str] = {}  # each class once, under the first name
    returned: list[type] = []
    for suffix in MODULES:
        module = importlib.import_module(f"{PACKAGE}{suffix}")
        yield f"# {module.__name__}\n"
        for name in sorted(getattr(module, "__all__", None) or _own_names(module)):
            value = getattr(module, name)
            if name == "__version__":
                continue
            elif inspect.isclass(value) and _is_own(value):
                if value in named:
                    yield f"{name} is {named[value]}"
                else:
                    named[value] = f"{module.__name__}.{name}"
                    yield from _class(name, value, returned)
            elif inspect.isroutine(value):
                yield f"{name}{_signature(value, returned)}"
            else:
                yield f"{name}: module" if inspect.ismodule(value) else f"{name} = {value!r}"
        yield ""
    yield "# returned by these\n"
    while left := [value for value in returned if value not in named]:
        named |= {value: value.__name__ for value in left}
        for value in left:
            yield from _class(value.__name__, value, returned)
    yield ""


def _own_names(module: Any) -> list[str]:
    """Return the public names of a module without ``__all__``: what it defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _is_own(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] == PACKAGE


def _class(name: str, value: type, returned: list[type]) -> Iterator[str]:
    """Yield a class and its public members; those of a foreign class are not looked at: it may not be installed."""
    yield f"class {name}{_signature(value, returned)}"
    members: dict[str, Any] = {}
    for own in (each for each in reversed(value.__mro__) if _is_own(each)):
        for member in (*inspect.get_annotations(own), *vars(own)):
            if not member.startswith("_") or member in SPECIAL:
                members[member] = vars(own).get(member)
    for member, held in sorted(members.items()):
        inner = held.__func__ if isinstance(held, classmethod | staticmethod) else held
        if isinstance(held, property) or not callable(inner):
            yield f"    .{member}"
            getter = held.func if isinstance(held, functools.cached_property) else getattr(held, "fget", None)
            if getter is not None:
                _signature(getter, returned)
        else:
            yield f"    .{member}{_signature(inner, returned)}"


def _signature(value: Any, returned: list[type]) -> str:
    """Return the signature as text; the package's classes that it returns are noted."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # a class whose foreign base has none
        return "(?)"
    names = re.findall(r"\w+", str(signature.return_annotation))
    found = (getattr(inspect.unwrap(value), "__globals__", {}).get(name) for name in names)
    returned += [each for each in found if inspect.isclass(each) and _is_own(each)]
    return re.sub(r" at 0x[0-9a-f]+", "", str(signature))


def _commands() -> Iterator[str]:
    from tune_media.cli import main

    for name, command in [("", main), *sorted(main.commands.items())]:
        context = click.Context(
            command, info_name=f"tune-media {name}".strip(), terminal_width=100, **command.context_settings
        )
        yield f"# {context.info_name} --help\n\n{command.get_help(context)}\n"


def _json() -> Iterator[str]:
    """Yield the documented fields; ``tests/cli/test_json.py`` holds them against the output of each command."""
    page = (ROOT / PACKAGE / "skill" / "json.md").read_text()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        cells = re.findall(r"^\| (`[^|]*`\??) \|", section, re.MULTILINE)
        names = sorted(f"{name}{mark}" for cell in cells for name, mark in re.findall(r"`([^`]+)`(\??)", cell))
        yield "\n".join([f"# --json: {section.partition(chr(10))[0]}\n", *names, ""])


if __name__ == "__main__":
    print(api(), end="")
