"""A single HTML file that has everything inside: the viewer, its data, and its clips, unless these are large."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Collection
from urllib.parse import quote

from tune_media.experiment.places import Folder
from tune_media.values import strict_json
from tune_media.viewing.front_end import SHOWN, STATIC, page
from tune_media.viewing.gallery import Gallery

MOST = 20e6
"""Bytes of clips that go inside; more lie beside the file."""
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; "
    "media-src data: 'self' file:"
)


def gallery_of(experiment: Folder, seeds: Collection[int]) -> Gallery:
    """Return an experiment's clips of episodes with these seeds."""
    gallery = Gallery.in_folder(experiment)
    for trial in gallery.trials:
        gallery.lines[trial.id] = [line for line in gallery.lines_of(trial) if line.get("seed") in seeds]
    return gallery


def single_page(gallery: Gallery, title: str) -> str:
    """Return a page with a gallery's data, styles and scripts inside, and its clips, unless they are above ``MOST``."""
    data = {name: strict_json.parse_json(content) for name, content in gallery.data(steps=False, posters="")}
    for trial in [*data["first"]["trials"], *data["index"]["trials"]]:
        trial["url"] = quote(posixpath.basename(trial["name"])) + "/"  # beside the file
    files = gallery.files.items() if gallery.nbytes <= MOST else ()
    clips = {f"{id}/{path}": (path, gallery.content(trial, path)) for (id, path), (trial, _) in files}
    data["media"] = {  # the page tells clips apart by their addresses, also those with equal content
        name: f"{_data_uri(content, path)}#{quote(name)}" for name, (path, content) in clips.items() if content
    }
    content = strict_json.json_bytes(data).decode().replace("<", "\\u003c")
    text = page("index.html", title, "files").replace('href="static/icon.svg"', f'href="{_icon()}"')
    head = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    text = text.replace("<title>", f"{head}\n<title>", 1)
    text = _STYLE.sub(lambda found: f"<style>{_static(found[1])}</style>", text)
    inside = f'<script type="application/json" id="data">{content}</script>'
    scripts = _SCRIPT.sub(lambda found: f"<script>{_static(found[1])}</script>", text)
    return scripts.replace('<div id="viewer"></div>', f'<div id="viewer"></div>\n{inside}', 1)


def _data_uri(content: bytes, path: str) -> str:
    kind = SHOWN[posixpath.splitext(path)[1].lower()]
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _icon() -> str:
    return f"data:image/svg+xml,{quote(_static('icon.svg'))}"


def _static(name: str) -> str:
    return (STATIC / name).read_text()
