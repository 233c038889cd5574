"""Values of other libraries as people have them, turned into ours: pictures, arrays, tables.

None of these libraries is imported: who has such a value has imported its library already.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.values import Artifact, Image, is_a, shown

_MIN_PIXELS = 4
_MOST_BITS = 1000
_MOST_LEVELS = 64
_MOST_NAME = 100
_CHANNELS = (1, 3, 4)


def converted(value: Any) -> Any:
    """Return a matplotlib figure or a PIL image as an ``Image``, a torch tensor as an array, a pandas frame as an
    ``Artifact`` (Parquet, or CSV where it does not fit into that); anything else as it is.

    Raises:
        Exception: Whatever its library raises, for example of a figure that cannot be drawn.
    """
    for kind in type(value).__mro__:
        convert = _CONVERSIONS.get((str(kind.__module__).partition(".")[0], kind.__name__))
        if convert is not None:
            return convert(value)
    return value


def is_picture(value: Any) -> bool:
    """Say whether an array is a picture: uint8, HW or HWC."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim not in (2, 3):
        return False
    return min(value.shape[:2]) >= _MIN_PIXELS and (value.ndim == 2 or value.shape[2] in _CHANNELS)


def as_numbers(value: Any) -> npt.NDArray[Any] | None:
    """Return a number, or an array, list or tuple of numbers, as an array; None where it is something else."""
    if is_a(value, str):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # lists of different lengths, and what raises when numpy asks it
        return None
    return array if array.dtype.kind in "biuf" else None


def as_plain(value: Any, name: str) -> Any:
    """Return a value as JSON has it: None, numbers, text, lists and dicts of these.

    Raises:
        TypeError: It holds something else; the message names it.
    """
    try:
        return _plain(value, name, set())
    except TypeError:
        raise
    except Exception as error:  # what raises when it is looked into
        raise TypeError(f"{name} cannot be read: {type(error).__name__}: {shown(error, str)}") from error


def _plain(value: Any, name: str, around: set[int]) -> Any:
    if is_a(value, int) and value.bit_length() > _MOST_BITS:
        raise TypeError(f"{name} is too large a number")
    if value is None or is_a(value, (bool, int, float, str)):
        return value
    if is_a(value, np.generic):
        plain = value.item()
        if is_a(plain, np.generic):  # a number that Python has none for
            raise TypeError(f"{name} is {_described(value)}")
        return _plain(plain, name, around)
    if id(value) in around:
        raise TypeError(f"{name} contains itself")
    if len(around) > _MOST_LEVELS:
        raise TypeError(f"{name[:_MOST_NAME]}... is nested more than {_MOST_LEVELS} levels deep")
    if is_a(value, np.ndarray):
        return value.tolist() if value.dtype.kind in "biufUS" else _items(value.tolist(), name, {*around, id(value)})
    if is_a(value, Mapping):
        inside = {*around, id(value)}
        named = ((shown(key, str), item) for key, item in value.items())
        return {key: _plain(item, f"{name}/{key}", inside) for key, item in named}
    if is_a(value, (list, tuple, set, frozenset)):
        return _items(value, name, {*around, id(value)})
    try:
        of_ours = converted(value)
    except Exception as error:
        raise TypeError(f"{name} is {_described(value)}: {type(error).__name__}: {shown(error, str)}") from error
    if isinstance(of_ours, np.ndarray):
        return of_ours.tolist()
    raise TypeError(f"{name} is {_described(value)}")


def _items(values: Iterable[Any], name: str, around: set[int]) -> list[Any]:
    return [_plain(item, f"{name}/{index}", around) for index, item in enumerate(values)]


def _described(value: Any) -> str:
    """Name a value by its type: its own text may be long, or raise."""
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


def _figure(figure: Any) -> Image:
    file = io.BytesIO()
    try:
        figure.savefig(file, format="png")
    except ValueError:  # arrays that come out of Ray's object store are read-only, and drawing writes into them
        file = io.BytesIO()
        pickle.loads(pickle.dumps(figure)).savefig(file, format="png")
    return Image.from_png(file.getvalue())


def _pil(picture: Any) -> Image:
    return Image(np.asarray(picture.convert("RGB")))


def _tensor(tensor: Any) -> npt.NDArray[Any]:
    detached = tensor.detach().cpu()
    if "bfloat16" in str(detached.dtype):  # numpy has no such numbers
        detached = detached.float()
    return np.asarray(detached.numpy())


def _frame(frame: Any) -> Artifact:
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
    except (ValueError, TypeError, ImportError, OSError):  # columns of mixed kinds
        return Artifact(frame.to_csv().encode(), name="table.csv")
    return Artifact(file.getvalue(), name="table.parquet")


_CONVERSIONS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("matplotlib", "Figure"): _figure,
    ("PIL", "Image"): _pil,
    ("torch", "Tensor"): _tensor,
    ("pandas", "DataFrame"): _frame,
}
