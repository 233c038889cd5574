"""Reads YAML of other tools as plain values: no tag runs anything, and neither size nor aliases can fill the memory."""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from tune_media.values.installing import pip_install

MOST_BYTES = 2_000_000
_MOST_VALUES = 200_000  # with each alias counted as often as it is used
_DEEPEST = 100
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.[\d_]+)[eE][-+]?\d+")
_OCTAL = re.compile(r"[-+]?0\d+$")
_NUMPY = re.compile(r"[biuf][1248]")
_STANDARD = "tag:yaml.org,2002:"
_TEXT = f"{_STANDARD}str"
_NAMES = (f"{_STANDARD}python/name:", f"{_STANDARD}python/module:")


def parse_yaml(content: bytes) -> Any:
    """Return plain data: None, numbers, texts, lists, and dicts whose names are texts.

    A value with a tag that is unknown, such as ``!!python/tuple``, is its plain content. It raises ImportError without
    PyYAML, and ValueError for what is no YAML, or too large.

    >>> parse_yaml(b"lr: 1e-4\\nlayers: !!python/tuple [64, 64]\\nact: !!python/name:torch.nn.Tanh ''")
    {'lr': 0.0001, 'layers': [64, 64], 'act': 'torch.nn.Tanh'}
    """
    try:
        import yaml
    except ImportError as error:
        raise ImportError(pip_install("folders")) from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has {len(content) / 1e6:.1f} MB, which is too much for YAML")
    try:
        loader = _loader_class(yaml)(content)
        try:
            node = loader.get_single_node()
            return None if node is None else _Reading(yaml, loader).value(node, 0)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError("it is no YAML" + (f" from its line {mark.line + 1} on" if mark else "")) from error
    except RecursionError as error:
        raise ValueError("its values are nested too deep") from error


@functools.cache
def _loader_class(yaml: ModuleType) -> Any:
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("_Loader", (base,), {})
    loader.add_implicit_resolver(f"{_STANDARD}float", _NUMBER, list("-+.0123456789"))
    return loader


class _Reading:
    """Makes plain values of the nodes of one document; PyYAML's constructors do not know how often an alias is used."""

    def __init__(self, yaml: ModuleType, loader: Any) -> None:
        self._yaml, self._loader = yaml, loader
        self._left = _MOST_VALUES

    def value(self, node: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError("it has too many values" if self._left < 0 else "its values are nested too deep")
        if isinstance(node, self._yaml.MappingNode):
            return dict(self._items(node, depth))
        if isinstance(node, self._yaml.ScalarNode):
            return self._scalar(node)
        items = [self.value(item, depth + 1) for item in node.value]
        kind = node.tag.removeprefix(_STANDARD)
        if kind.endswith(".multiarray.scalar"):
            return _numpy_scalar(items)
        if kind == "python/object/apply:collections.OrderedDict" and len(items) == 1 and isinstance(items[0], list):
            return _as_dict(items[0])
        return _as_dict(items) if kind in ("omap", "pairs") else items

    def _items(self, node: Any, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield names and values, those that ``<<`` takes from other mappings first."""
        merged = [part for name, part in node.value if name.tag == f"{_STANDARD}merge"]
        for part in merged:
            others = self.value(part, depth + 1)
            for other in reversed(others if isinstance(others, list) else [others]):
                yield from other.items() if isinstance(other, dict) else ()
        for name, part in node.value:
            if name.tag != f"{_STANDARD}merge":
                key = self.value(name, depth + 1)
                yield key if isinstance(key, str) else str(key), self.value(part, depth + 1)

    def _scalar(self, node: Any) -> Any:
        tag, text = node.tag, node.value
        if tag == _TEXT:  # most are
            return text
        if tag.startswith(_NAMES):
            return text or tag.rpartition(":")[2]
        if tag not in self._loader.yaml_constructors:  # what it would be without its tag
            tag = self._loader.resolve(self._yaml.ScalarNode, text, (not node.style, bool(node.style)))
        plain = self._yaml.ScalarNode(tag, text)
        try:
            value = self._loader.yaml_constructors[tag](self._loader, plain)
        except (ValueError, LookupError, TypeError, OverflowError, self._yaml.YAMLError):
            return text
        if isinstance(value, bytes):
            return value.hex()
        return text if isinstance(value, datetime.date) or _is_doubtful(value, text) else value


def _numpy_scalar(items: list[Any]) -> Any:
    """Return the number of NumPy that these arguments make, if it is a plain one."""
    with contextlib.suppress(TypeError, ValueError, LookupError):
        kind, order, content = items[0]["args"][0], items[0]["state"][1], bytes.fromhex(items[1])
        if _NUMPY.fullmatch(kind) and order in "<|" and len(content) == int(kind[1]):
            return np.frombuffer(content, f"<{kind}")[0].item()
    return items


def _is_doubtful(value: Any, text: str) -> bool:
    """Return whether a number is one for YAML 1.1 alone, as 12:30, 007 and the commit 1234e567 are."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return ":" in text or bool(_OCTAL.match(text)) or (math.isinf(value) and "inf" not in text.lower())


def _as_dict(items: list[Any]) -> Any:
    """Return a dict of pairs, or of dicts with one name each, as an ordered dict is written; else the items."""
    pairs = [next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else item for item in items]
    if all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        return {str(name): value for name, value in pairs}
    return items
