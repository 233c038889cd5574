"""The command that installs an extra of this package, from wherever the package itself was installed."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tune_media.values.problems import Message, remedy

_NAME = "tune-media"


def pip_install(extra: str) -> Message:
    """Return the command, as a remedy: of the folder, file or repository that pip had the package from, or its name.

    >>> pip_install("viewer").startswith("pip install "), pip_install("viewer").endswith("[viewer]'")
    (True, True)
    """
    return remedy(f"pip install {_source(extra)}")


def _source(extra: str) -> str:
    named = f"{_NAME}[{extra}]"
    try:
        origin = json.loads(importlib.metadata.distribution(_NAME).read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):  # a copy on sys.path
        origin = {}
    url = str(origin.get("url", ""))
    if not url:
        return shlex.quote(named)
    if url.startswith("file:") and "vcs_info" not in origin:
        place = url2pathname(urlsplit(url).path)
        is_editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"{is_editable}{shlex.quote(f'{place}[{extra}]')}" if Path(place).exists() else shlex.quote(named)
    kind = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return shlex.quote(f"{named} @ {kind}{url}")
