"""The base of everything that a result can hold besides numbers."""

from __future__ import annotations

import functools
import uuid
from typing import Any, ClassVar

CONTENT_DIGITS = 24
"""If an id is made from a medium's content, this many of its digits depend on the content alone."""


def new_id() -> str:
    """Return a new, globally unique id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def joined(*notes: str | None) -> str | None:
    """Return several notes as one; None if there is none.

    >>> joined("cut", None, "a still")
    'cut; a still'
    """
    return "; ".join(note for note in notes if note) or None


class Medium:
    """A value that becomes one file in the trial folder.

    Each medium is frozen, safe to pickle and short to print. Its id is made where it was recorded, so that it is stored
    and logged once, even if a result repeats it. A subclass adds its file name ending, its file and its facts:

    >>> from tune_media import Artifact
    >>> notes = Artifact(b"hello", name="notes.txt")
    >>> notes.kind, notes.suffix, notes.content()
    ('artifact', '.txt', b'hello')

    Attributes:
        kind: The word for this kind of medium in the index.
        id: The medium's unique id.
        data: The bytes of its file, of a medium that holds them.
        note: A remark for viewers, or None.
        may_repeat: If this medium may repeat one that is already stored, the first ``CONTENT_DIGITS`` of its id.
    """

    kind: ClassVar[str] = ""
    id: str
    data: bytes
    note: str | None = None
    may_repeat: str | None = None

    @property
    def suffix(self) -> str:
        """The file name ending, with its dot."""
        raise NotImplementedError

    @property
    def is_rendered(self) -> bool:
        """Whether its file is there; the clip of an episode that has a tape may still have to be rendered."""
        return True

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the medium takes until it is written."""
        return len(getattr(self, "data", b"")) or 1000

    def content(self) -> bytes:
        """Return the bytes of the file: its ``data``, if it holds them."""
        return self.data

    def facts(self) -> dict[str, Any]:
        """Return the fields that only this kind of medium has in the index, without fields that do not apply."""
        return {}

    def reidentify(self, id: str, may_repeat: str | None) -> None:
        """Replace the id of a medium that was just made from a value that brought none."""
        self._set(id=id, may_repeat=may_repeat)

    @property
    def __pydantic_serializer__(self) -> Any:
        """How pydantic writes it: as a short text. Ray Train V2 writes what comes with a checkpoint as JSON."""
        return _pydantic_serializer()

    def _set(self, **values: Any) -> None:
        """Set fields of a frozen medium while it is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@functools.cache
def _pydantic_serializer() -> Any:
    try:
        from pydantic_core import SchemaSerializer, core_schema
    except ImportError:  # then no notebook shows it
        return None
    text = core_schema.plain_serializer_function_ser_schema(repr)
    return SchemaSerializer(core_schema.any_schema(serialization=text))
