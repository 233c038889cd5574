"""An S3 server that reads a local folder and takes a while for each request: python -m tests.benchmarks.slow_s3 FOLDER.

It knows the four requests that reading takes: list (in pages of 1,000 keys), head, get, get a range.
"""

from __future__ import annotations

import asyncio
import bisect
import sys
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"


class SlowS3:
    """The files below ``folder`` as the bucket ``bucket``; each request takes ``seconds``."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._keys = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        self.requests: dict[str, int] = {}

    async def serve(self) -> None:
        """Print the port and serve until the process is killed; ``GET /`` returns the counts of the requests."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            method, target, _ = request.decode().split()
            headers = {}
            while (line := await reader.readline()).strip():
                name, value = line.decode().split(":", 1)
                headers[name.lower()] = value.strip()
            url = urlsplit(target)
            if url.path == "/":
                status, more, body = 200, {}, repr(self.requests).encode()
            else:
                await asyncio.sleep(self._seconds)
                status, more, body = self._reply(method, url.path, parse_qs(url.query), headers)
            more = {"content-length": str(len(body)), "content-type": "application/octet-stream", **more}
            head = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            content = b"" if method == "HEAD" else body
            writer.write(f"HTTP/1.1 {status} OK\r\n{head}\r\n".encode() + content)
            await writer.drain()
        writer.close()

    def _reply(
        self, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        key = unquote(path).removeprefix(f"/{BUCKET}").lstrip("/")
        kind = "LIST" if not key else method
        self.requests[kind] = self.requests.get(kind, 0) + 1
        if not key:
            asked = {name: value[0] for name, value in query.items()}
            return 200, {"content-type": "application/xml"}, self._list(asked)
        file = self._folder / key
        if not file.is_file():
            return 404, {}, b""
        stat = file.stat()
        more = {"last-modified": formatdate(stat.st_mtime, usegmt=True), "etag": '"0"', "accept-ranges": "bytes"}
        if method == "HEAD":
            return 200, {**more, "content-length": str(stat.st_size)}, b""
        content = file.read_bytes()
        first, _, last = headers.get("range", "").removeprefix("bytes=").partition("-")
        if not first:
            return 200, more, content
        begin, end = int(first), min(int(last or stat.st_size), stat.st_size - 1)
        return 206, {**more, "content-range": f"bytes {begin}-{end}/{stat.st_size}"}, content[begin : end + 1]

    def _list(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most, after = int(query.get("max-keys", 1000)), query.get("continuation-token", "")
        found: dict[str, str] = {}
        at = bisect.bisect_left(self._keys, prefix)
        truncated = False
        for key in self._keys[at:]:
            if not key.startswith(prefix):
                break
            is_below = bool(delimiter) and delimiter in key[len(prefix) :]
            folder = key[: key.index(delimiter, len(prefix)) + 1] if is_below else ""
            name = folder or key
            if name <= after or name in found:
                continue
            if len(found) == most:
                truncated = True
                break
            if folder:
                found[name] = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            else:
                size = (self._folder / key).stat().st_size
                found[name] = (
                    f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f"<ETag>&quot;0&quot;</ETag><Size>{size}</Size></Contents>"
                )
        token = f"<NextContinuationToken>{escape(list(found)[-1])}</NextContinuationToken>" if truncated else ""
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}'
            f"</Prefix><KeyCount>{len(found)}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{str(truncated).lower()}"
            f"</IsTruncated>{token}{''.join(found.values())}</ListBucketResult>"
        ).encode()


if __name__ == "__main__":
    asyncio.run(SlowS3(Path(sys.argv[1]), float(sys.argv[2])).serve())
