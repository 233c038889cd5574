"""Any file."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from tune_media.values.checks import a_text, as_shown, file_content
from tune_media.values.medium import Medium, new_id


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Artifact(Medium):
    """Any file, stored in the trial folder as it is.

    >>> Artifact(b"buffer", name="buffer.msgpack")
    Artifact('buffer.msgpack', 6 bytes)

    Args:
        source: The bytes, or the path of a file, which is read now.
        name: File name; its ending is kept. None: that of the path.

    Raises:
        ValueError: Bytes came without a name.
        TypeError: ``source`` is neither bytes nor a path.
        OSError: The file cannot be read.
    """

    kind: ClassVar[str] = "artifact"

    data: bytes
    name: str
    id: str

    def __init__(self, source: bytes | str | Path, name: str | None = None) -> None:
        a_text("'buffer.msgpack'", or_none=True).check("Artifact(name=...)", name)
        if isinstance(source, bytes):
            if not name:
                raise ValueError("Artifact(bytes) needs a name, for example Artifact(data, name='buffer.msgpack').")
            data = source
        elif not isinstance(source, (str, os.PathLike)):
            raise TypeError(
                f"Artifact takes bytes or the path of a file, got {as_shown(source)}. Turn an object into bytes first, "
                "for example with json.dumps(...).encode() or pickle.dumps(...)."
            )
        else:
            data, name = file_content("Artifact(path)", source), name or Path(source).name
        self._set(data=data, name=name, id=new_id())

    @property
    @override
    def suffix(self) -> str:
        return Path(self.name).suffix or ".bin"

    @override
    def facts(self) -> dict[str, Any]:
        guessed = mimetypes.guess_type(Path(self.name).name)[0]  # a whole path could be taken for a broken URL
        return {"name": self.name, "format": guessed or self.suffix.lstrip(".")}

    def __repr__(self) -> str:
        return f"Artifact({self.name!r}, {len(self.data)} bytes)"
