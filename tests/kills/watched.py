"""Files that change while a driver works, as anybody sees them: a driver is killed when one has changed."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import urllib.request
from typing import Any

from tests.kills.driver import Places
from tests.support.killed_process import versions

WATCHED = {
    "a report": ("truth.jsonl", 10),
    "Tune's snapshot": ("snapshot.pickle", 2),
    "results": ("driver/*/artifacts/*/result.json", 4),
    "the outbox": ("outbox/**/*", 20),
    "the log": ("storage/.tune_media_log/*", 5),
    "media": ("storage/t?/media/*/**/*", 5),
    "indexes": ("storage/t?/media/index.jsonl*", 2),
    "episode data": ("storage/t?/episode_data/*", 4),
    "TensorBoard": ("driver/*/artifacts/*/events.out*", 4),
    "TensorBoard on the storage": ("storage/t?/events.out*", 2),
    "W&B": ("driver/tmp/**/*.wandb", 4),
    "W&B on the storage": ("storage/t?/wandb/**/*", 2),
    "MLflow": ("mlflow/**/*", 8),
}
"""Files of a round, and how many of their changes are seen before the kill, on average."""


def seen(places: Places, pattern: str) -> dict[str, Any]:
    """Return the version of each file whose path in a round's folder is like a pattern; the storage may be on S3."""
    found = versions(places.folder, pattern)
    if places.server and pattern.startswith("storage"):
        bucket, _, prefix = places.experiment.partition("/")
        with contextlib.suppress(OSError):
            address = f"http://{places.server}/{bucket}?list-type=2&prefix={prefix}/"
            text = urllib.request.urlopen(address, timeout=10).read().decode()
            objects = re.findall(r"<Key>(.*?)</Key>.*?<ETag>(.*?)</ETag>", text, re.DOTALL)
            named = {key.replace(prefix, "storage", 1): tag for key, tag in objects}
            found |= {path: tag for path, tag in named.items() if fnmatch.fnmatch(path, pattern)}
    return found
