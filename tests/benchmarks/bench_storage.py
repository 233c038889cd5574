"""Whether the storage keeps up with 200 clips a second: python -m tests.benchmarks.bench_storage.

Ten trials report small clips, together 200 a second, to our JSON callback: with results on the local disk, then on an
S3 server on loopback that takes 100 ms a request. The server knows what pyarrow's writing takes, and counts requests.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pyarrow.fs

import tune_media as tm
from tests.benchmarks.common import copy_of, serving
from tests.support.fake_trial import FakeTrial

TRIALS, RATE, SECONDS, REQUEST_SECONDS = 10, 200, 10, 0.1
HEAD = "HTTP/1.1 {}\r\nContent-Length: {}\r\nETag: x\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"


class S3:
    """Objects in memory; ``GET /`` returns the number of requests."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        self._count = 0

    async def serve(self) -> None:
        """Print the port and serve until the process is killed."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**24)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                if headers.get("expect") == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await self._body(reader, headers)
                method, target, _ = first.split(" ")
                status, content = await self._answer(method, target, body)
                answer = HEAD.format(status, len(content)).encode()
                writer.write(answer + (b"" if method == "HEAD" else content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    @staticmethod
    async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return await reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int((await reader.readline()).partition(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass  # checksums after the last chunk
        return body

    async def _answer(self, method: str, target: str, body: bytes) -> tuple[str, bytes]:
        url = urlsplit(target)
        key, query = unquote(url.path).strip("/"), parse_qs(url.query, keep_blank_values=True)
        if not key:
            return "200 OK", str(self._count).encode()
        self._count += 1
        await asyncio.sleep(REQUEST_SECONDS)
        if method == "POST" and "uploads" in query:
            id = str(self._count)
            self._parts[id] = {}
            names = f"<Bucket>b</Bucket><Key>{key}</Key><UploadId>{id}</UploadId>"
            return "200 OK", f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>".encode()
        if method == "POST":
            self._objects[key] = b"".join(self._parts.pop(query["uploadId"][0]).values())
            return "200 OK", b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
        if method == "PUT" and "uploadId" in query:
            self._parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
        elif method == "PUT":
            self._objects[key] = body
        elif "list-type" in query:
            nothing = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
            return "200 OK", nothing
        elif key not in self._objects and "/" in key:
            return "404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"
        return "200 OK", self._objects.get(key, b"") if method == "GET" else b""


def run(filesystem: pyarrow.fs.FileSystem | None, folder: Path) -> dict[str, float]:
    """Report at the rate; return how many clips were stored, and how long they took after the last result."""
    callback = tm.JsonMediaLoggerCallback()
    clip = tm.Video([np.full((32, 48, 3), 20 * index, np.uint8) for index in range(6)], fps=10)
    trials = [FakeTrial(folder, f"t{index:04d}") for index in range(TRIALS)]
    for trial in trials:
        if filesystem is not None:
            trial.storage.storage_filesystem, trial.storage.experiment_fs_path = filesystem, "b/exp"
            trial.storage.trial_fs_path = f"b/exp/{trial.trial_id}"
        callback.log_trial_start(trial)
    began, cpu = time.perf_counter(), time.process_time()
    for count in range(RATE * SECONDS):
        step = 1 + count // TRIALS
        callback.log_trial_result(step, trials[count % TRIALS], {"training_iteration": step, "clip": copy_of(clip)})
        time.sleep(max(0.0, began + (count + 1) / RATE - time.perf_counter()))
    reported = time.perf_counter()
    for trial in trials:
        callback.log_trial_end(trial)
    callback.on_experiment_end(trials)
    ended = time.perf_counter()
    total = RATE * SECONDS
    cpu_ms = 1e3 * (time.process_time() - cpu) / total
    rates = {"reported": total / (reported - began), "rate": total / (ended - began)}
    return {**rates, "left": ended - reported, "cpu": cpu_ms}


def main() -> None:
    """Print the rows."""
    with serving("-m", "tests.benchmarks.bench_storage", "serve") as (port, _):
        address = f"http://127.0.0.1:{port}"
        s3 = pyarrow.fs.S3FileSystem(endpoint_override=address, region="us-east-1", access_key="a", secret_key="b")
        print("| storage | reported, clips/s | left at the end, s | stored, clips/s | requests a clip | CPU, ms |")
        print("|---|---|---|---|---|---|")
        for name, filesystem in (("local disk", None), ("S3, 100 ms a request", s3)):
            with tempfile.TemporaryDirectory() as folder:
                row = run(filesystem, Path(folder))
            requests = int(urllib.request.urlopen(f"{address}/").read()) / (RATE * SECONDS) if filesystem else 0
            rates = f"{row['reported']:.0f} | {row['left']:.1f} | {row['rate']:.0f}"
            print(f"| {name} | {rates} | {requests:.1f} | {row['cpu']:.1f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(S3().serve())
    else:
        main()
