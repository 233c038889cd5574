"""What 1,000 live trials and a viewer ask of S3, a clip a minute each: python -m tests.benchmarks.bench_requests.

The server on loopback counts its requests by what they are for. The trials' results are there already: Tune uploads
them itself. The viewer's page asks for new clips and metrics every ten seconds, as the viewer reads no more often.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import numpy as np
import pyarrow.fs

import tune_media as tm
from tests.benchmarks import bench_storage
from tests.benchmarks.bench_viewer import watching
from tests.benchmarks.common import copy_of, serving
from tests.support.fake_trial import FakeTrial
from tune_media.storage.location import LOCATION_FILE

LOOK_SECONDS = 10.5  # a bit more than the viewer's own pause
BEFORE_SECONDS = 15  # that are not counted: all trials start
GROUPS = {
    r"/\.tune_media_log/": "log",
    r"/media/index\.jsonl$": "index",
    r"/result\.json$": "result.json",
    r"/media/.+/": "clips",
}


class S3(bench_storage.S3):
    """Objects in memory that can be listed; ``GET /`` returns the counts of the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    @staticmethod
    async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        body = await bench_storage.S3._body(reader, headers)
        if "aws-chunked" not in headers.get("content-encoding", "") or "x-amz-decoded-content-length" not in headers:
            return body
        size = int(headers["x-amz-decoded-content-length"])
        return body if len(body) == size else b"".join(_chunks(body))[:size]

    async def _answer(self, method: str, target: str, body: bytes) -> tuple[str, bytes]:
        url = urlsplit(target)
        key, query = unquote(url.path).strip("/"), parse_qs(url.query, keep_blank_values=True)
        if not key:
            return "200 OK", repr(dict(self.counts)).encode()
        is_list = "list-type" in query
        name = f"{key}/{query.get('prefix', [''])[0]}" if is_list else key
        group = next((group for pattern, group in GROUPS.items() if re.search(pattern, name)), "other")
        self.counts[f"{'LIST' if is_list else method} {group}"] += 1
        if is_list:
            return "200 OK", self._list(key, {name: values[0] for name, values in query.items()})
        if method in ("GET", "HEAD"):
            is_there = key in self._objects or "/" not in key
            return ("200 OK", self._objects.get(key, b"")) if is_there else ("404 Not Found", b"")
        if method == "DELETE":
            self._objects.pop(key, None)
            return "204 No Content", b""
        return await super()._answer(method, target, body)

    def _list(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after, most = query.get("continuation-token", ""), int(query.get("max-keys", 1000))
        names: dict[str, int] = {}
        for key, content in self._objects.items():
            name = key.removeprefix(f"{bucket}/")
            if name.startswith(prefix):
                end = name.find(delimiter, len(prefix)) if delimiter else -1
                names[name if end < 0 else name[: end + 1]] = -1 if end >= 0 else len(content)
        there = sorted(name for name in names if name > after)
        shown = there[:most]
        objects = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            if names[name] < 0
            else f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>x</ETag><Size>{names[name]}</Size></Contents>"
            for name in shown
        )
        rest = len(there) > most
        token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if rest else ""
        return (
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(shown)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(rest).lower()}</IsTruncated>{token}{objects}</ListBucketResult>"
        ).encode()


def _chunks(body: bytes) -> Iterator[bytes]:
    """Return the content of each chunk; checksums come after the last one."""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0] or b"0", 16)
        if not size:
            return
        yield body[:size]
        body = body[size + 2 :]


def report(
    filesystem: pyarrow.fs.FileSystem, folder: Path, trials: int, seconds: float, count: threading.Event
) -> None:
    """Report clips, a minute apart in each trial; set the event when all trials have begun."""
    callback = tm.JsonMediaLoggerCallback()
    clip = tm.Video([np.full((32, 48, 3), 20 * index, np.uint8) for index in range(3)], fps=10)
    running = [FakeTrial(folder, f"t{index:04d}", filesystem=filesystem) for index in range(trials)]
    for trial in running:
        trial.storage.experiment_fs_path, trial.storage.trial_fs_path = "b/exp", f"b/exp/{trial.trial_id}"
        callback.log_trial_start(trial)
        for name, content in (("result.json", b'{"training_iteration": 1}\n'), ("params.json", b'{"lr": 1}')):
            with filesystem.open_output_stream(f"b/exp/{trial.trial_id}/{name}") as stream:
                stream.write(content)
        pointer = Path(trial.local_path, LOCATION_FILE)
        with filesystem.open_output_stream(f"b/exp/{trial.trial_id}/{LOCATION_FILE}") as stream:
            stream.write(pointer.read_bytes() if pointer.exists() else b"{}")
    began = time.monotonic()
    for number in range(int((BEFORE_SECONDS + seconds) * trials / 60)):
        step = 1 + number // trials
        result = {"training_iteration": step, "clip": copy_of(clip)}
        callback.log_trial_result(step, running[number % trials], result)
        pause = began + (number + 1) * 60 / trials - time.monotonic()
        time.sleep(max(0.0, pause))
        if time.monotonic() > began + BEFORE_SECONDS:
            count.set()
    late = time.monotonic() - began - BEFORE_SECONDS - seconds
    print(f"the last clip was {max(0.0, late):.1f} s late", flush=True)


def main() -> None:
    """Print how many requests there are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with (
        serving("-m", "tests.benchmarks.bench_requests", "serve") as (port, _),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        address, begun = f"127.0.0.1:{port}", threading.Event()

        def counts() -> Counter[str]:
            return Counter(ast.literal_eval(urllib.request.urlopen(f"http://{address}/").read().decode()))

        s3 = pyarrow.fs.S3FileSystem(
            endpoint_override=address, scheme="http", region="us-east-1", access_key="a", secret_key="b"
        )
        sweep = threading.Thread(
            target=report, args=(s3, Path(folder), given.trials, given.seconds, begun), daemon=True
        )
        sweep.start()
        begun.wait()
        before, began = counts(), time.monotonic()
        time.sleep(given.seconds / 2)
        found, seconds = counts() - before, time.monotonic() - began
        print("\n| request, and what for | a second |\n|---|---|")
        for name, count in sorted(found.items()):
            print(f"| {name} | {count / seconds:.2f} |", flush=True)
        experiment = f"s3://b/exp?endpoint_override={address}&scheme=http&region=us-east-1"
        with watching(experiment) as (url, _):
            print("\n| look | requests of the viewer that do not write, without result.json |\n|---|---|")
            for look in range(4):
                before, looked = counts(), time.monotonic()
                for name in ("index", "metrics"):
                    urllib.request.urlopen(f"{url}data/{name}.json").read()
                asked = counts() - before
                shown = ", ".join(
                    f"{count} {name}" for name, count in sorted(asked.items()) if not name.endswith("result.json")
                )
                print(f"| {look} ({time.monotonic() - looked:.1f} s) | {shown} |", flush=True)
                time.sleep(max(0.0, looked + LOOK_SECONDS - time.monotonic()))
    os._exit(0)  # what waits in the outbox is of no interest


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        bench_storage.REQUEST_SECONDS = 0.0
        asyncio.run(S3().serve())
    else:
        main()
