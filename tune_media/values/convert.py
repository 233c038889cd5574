"""Converts values of matplotlib, PIL, torch and pandas: pictures, arrays and tables.

None of these libraries is imported here; a process that holds such a value has imported its library already.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tune_media.values.artifact import Artifact
from tune_media.values.foreign import is_a
from tune_media.values.image import Image

_MIN_PIXELS = 4
_CHANNELS = (1, 3, 4)


def converted(value: Any) -> Any:
    """Convert a value of another library; any other value is returned as it is.

    A matplotlib figure or a PIL image becomes an ``Image``, a torch tensor an array, and a pandas frame an ``Artifact``
    (Parquet, or CSV if its columns do not fit into Parquet). The value's library may raise anything.

    >>> import pandas as pd
    >>> converted(pd.DataFrame({"a": [1, 2]})).name
    'table.parquet'
    >>> converted("text")
    'text'
    """
    for kind in type(value).__mro__:
        convert = _CONVERSIONS.get((str(kind.__module__).partition(".")[0], kind.__name__))
        if convert is not None:
            return convert(value)
    return value


def is_of_known_library(value: Any) -> bool:
    """Return whether ``converted`` knows the library that a value's own class is of, not one of a user's subclass."""
    library = str(type(value).__module__).partition(".")[0]
    return any((library, kind.__name__) in _CONVERSIONS for kind in type(value).__mro__)


def as_array(value: Any) -> npt.NDArray[Any]:
    """Return a value as an array; a torch tensor may be on any device.

    >>> as_array([1.0, 2.0])
    array([1., 2.])
    """
    if isinstance(value, np.ndarray):
        return value
    kinds = [(str(kind.__module__).partition(".")[0], kind.__name__) for kind in type(value).__mro__]
    return _tensor(value) if ("torch", "Tensor") in kinds else np.asarray(value)


def is_picture(value: Any) -> bool:
    """Return whether an array is a picture: uint8, HW or HWC."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim not in (2, 3):
        return False
    return min(value.shape[:2]) >= _MIN_PIXELS and (value.ndim == 2 or value.shape[2] in _CHANNELS)


def as_numbers(value: Any) -> npt.NDArray[Any] | None:
    """Return a number, or an array, list or tuple of numbers, as an array; None if it is something else.

    >>> as_numbers([1, 2.5]).tolist(), as_numbers("text"), as_numbers([[1], [2, 3]])
    ([1.0, 2.5], None, None)
    """
    if is_a(value, str):
        return None
    try:
        array = np.asarray(value)
    except Exception:  # lists of different lengths, or objects that raise
        return None
    return array if array.dtype.kind in "biuf" else None


def _figure(figure: Any) -> Image:
    file = io.BytesIO()
    try:
        figure.savefig(file, format="png")
    except ValueError:  # arrays from Ray's object store are read-only, and drawing writes into them
        file = io.BytesIO()
        pickle.loads(pickle.dumps(figure)).savefig(file, format="png")
    return Image.from_png(file.getvalue())


def _tensor(tensor: Any) -> npt.NDArray[Any]:
    detached = tensor.detach().cpu()
    if "bfloat16" in str(detached.dtype):  # NumPy has no such type
        detached = detached.float()
    return np.asarray(detached.numpy())


def _frame(frame: Any) -> Artifact:
    file = io.BytesIO()
    try:
        frame.to_parquet(file)
    except Exception:  # columns of mixed kinds, or of a type that Parquet does not have
        return Artifact(frame.to_csv().encode(), name="table.csv")
    return Artifact(file.getvalue(), name="table.parquet")


_CONVERSIONS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("matplotlib", "Figure"): _figure,
    ("PIL", "Image"): lambda picture: Image(np.asarray(picture.convert("RGB"))),
    ("torch", "Tensor"): _tensor,
    ("pandas", "DataFrame"): _frame,
}
