"""A medium that is a finished file of any kind: its bytes and the facts about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from tune_media.values.medium import Medium


class FileMedium(Medium):
    """A finished file; ``facts`` are the fields that this kind of medium has in the index."""

    ending: str
    data: bytes
    own_facts: Mapping[str, Any]

    def __init__(
        self, kind: str, id: str, ending: str, data: bytes, facts: Mapping[str, Any], note: str | None = None
    ) -> None:
        self._set(kind=kind, id=id, ending=ending, data=data, own_facts=facts, note=note)

    @property
    @override
    def suffix(self) -> str:
        return self.ending

    @override
    def facts(self) -> dict[str, Any]:
        return dict(self.own_facts)
