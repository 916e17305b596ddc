"""A server that speaks as much of S3 as a conversion needs, with the latency and the bandwidth of a network.

    python benches/peers/object_server.py [--latency SECONDS] [--rate BYTES_PER_SECOND] [--each BYTES_PER_SECOND] [--load PATH FILE]

It has a FILE as an object at the beginning, keeps objects in memory, checks no signature, and prints its port. Every request waits for the latency once; all connections
together get the rate, each direction by itself, and none gets more than `each`. `GET /-/requests` says how many requests there
were, `GET /-/methods` how many of each method; `GET /-/sent`, which bytes of which objects were sent: `[path, start, length]`. All
three begin to count anew. `GET /-/left` says what is there: the objects, and the uploads that are not complete. Needs nothing but
Python.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from xml.sax.saxutils import escape, unescape

PIECE = 256 << 10


class Rate:
    """So many bytes a second, for whoever asks."""

    def __init__(self, rate: float):
        self.rate, self.free = rate, 0.0

    def reserve(self, size: int) -> float:
        """When bytes may have passed."""
        now = asyncio.get_running_loop().time()
        # What was not used for more than a moment is lost, as on a link.
        self.free = max(now - 0.01, self.free) + size / self.rate
        return self.free

    async def take(self, size: int, own: "Rate") -> None:
        until = max(self.reserve(size), own.reserve(size))
        await asyncio.sleep(until - asyncio.get_running_loop().time())


class Server:
    def __init__(self, latency: float, rate: float, each: float):
        self.latency, self.each = latency, each
        self.down, self.up = Rate(rate), Rate(rate)
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests = self.version = 0
        self.methods: collections.Counter[str] = collections.Counter()
        self.sent: list[list] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = Rate(self.each), Rate(self.each)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self.answer(head.decode("latin-1"), reader, writer, own)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head: str, reader, writer, own: tuple[Rate, Rate]) -> None:
        lines = head.split("\r\n")
        method, target, _ = lines[0].split(" ")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:]) if key}
        url = urllib.parse.urlsplit(target)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()}
        await asyncio.sleep(self.latency)
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        left = int(headers.get("content-length", 0))
        while left:
            piece = await reader.readexactly(min(left, PIECE))
            body += piece
            left -= len(piece)
            await self.up.take(len(piece), own[1])
        self.requests += 1
        self.methods[method] += not target.startswith("/-/")
        status, fields, content = self.act(method, urllib.parse.unquote(url.path), query, headers, bytes(body))
        size = fields.pop("Content-Length", len(content))
        text = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        writer.write(f"HTTP/1.1 {status} x\r\n{text}Content-Length: {size}\r\n\r\n".encode())
        first = int(fields["Content-Range"].split()[1].partition("-")[0]) if "Content-Range" in fields else 0
        self.sent.append(sent := [url.path, first, 0])
        for start in range(0, len(content), PIECE):
            piece = content[start : start + PIECE]
            await self.down.take(len(piece), own[0])
            writer.write(piece)
            sent[2] += len(piece)
            await writer.drain()
        await writer.drain()

    def act(self, method: str, path: str, query: dict, headers: dict, body: bytes) -> tuple[int, dict, bytes]:
        match method:
            case "GET" if path == "/-/requests":
                counted, self.requests = self.requests - 1, 0
                return 200, {}, json.dumps(counted).encode()
            case "GET" if path == "/-/methods":
                methods, self.methods = dict(self.methods), collections.Counter()
                return 200, {}, json.dumps(methods).encode()
            case "GET" if path == "/-/sent":
                sent, self.sent = [each for each in self.sent if each[2] and not each[0].startswith("/-/")], []
                return 200, {}, json.dumps(sent).encode()
            case "GET" if path == "/-/left":
                return 200, {}, json.dumps({"objects": sorted(self.objects), "uploads": len(self.uploads)}).encode()
            case "GET" if "list-type" in query:
                return 200, {}, self.listed(path.strip("/").split("/")[0], query.get("prefix", ""))
            case "GET" | "HEAD":
                return self.read(path, headers, method == "HEAD")
            case "PUT" if "uploadId" in query:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = body
                return 200, {"ETag": f'"part-{query["partNumber"]}"'}, b""
            case "PUT" if headers.get("if-none-match") == "*" and path in self.objects:
                return 412, {}, b""
            case "PUT":
                return 200, {"ETag": self.put(path, body)}, b""
            case "POST" if "uploads" in query:
                self.version += 1
                self.uploads[str(self.version)] = {}
                return 200, {}, xml("InitiateMultipartUploadResult", UploadId=self.version)
            case "POST" if "uploadId" in query:
                parts = self.uploads.pop(query["uploadId"])
                etag = self.put(path, b"".join(parts[number] for number in sorted(parts)))
                return 200, {}, xml("CompleteMultipartUploadResult", ETag=etag)
            case "POST" if "delete" in query:
                keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode())]
                for key in keys:
                    self.objects.pop(f"{path.rstrip('/')}/{key}", None)
                deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
                return 200, {}, f"<DeleteResult>{deleted}</DeleteResult>".encode()
            case "DELETE":
                self.uploads.pop(query.get("uploadId", ""), None)
                self.objects.pop(path, None)
                return 204, {}, b""
        return 501, {}, b""

    def put(self, path: str, body: bytes) -> str:
        self.version += 1
        self.objects[path] = (body, f'"{self.version}"')
        return self.objects[path][1]

    def read(self, path: str, headers: dict, only_head: bool) -> tuple[int, dict, bytes]:
        if path not in self.objects:
            return 404, {}, b""
        content, etag = self.objects[path]
        if headers.get("if-match", etag) != etag:
            return 412, {}, b""
        fields = {"ETag": etag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Accept-Ranges": "bytes"}
        status, size = 200, len(content)
        if "range" in headers:
            start, _, end = headers["range"].removeprefix("bytes=").partition("-")
            start, end = int(start), min(int(end or size - 1), size - 1)
            if start >= size:
                return 416, {}, b""
            fields["Content-Range"], status = f"bytes {start}-{end}/{size}", 206
            content = memoryview(content)[start : end + 1]
        return status, fields | {"Content-Length": len(content)}, b"" if only_head else content

    def listed(self, bucket: str, prefix: str) -> bytes:
        keys = [path.removeprefix(f"/{bucket}/") for path in self.objects if path.startswith(f"/{bucket}/{prefix}")]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[f'/{bucket}/{key}'][0])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in sorted(keys)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()


def xml(name: str, **fields: object) -> bytes:
    inner = "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in fields.items())
    return f"<{name}>{inner}</{name}>".encode()


@contextlib.contextmanager
def serving(*options: object) -> Iterator[int]:
    """A server in a process of its own, until the end; yields its port."""
    command = [sys.executable, __file__, *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=float("inf"))
    parser.add_argument("--each", type=float, default=float("inf"))
    parser.add_argument("--load", nargs=2, action="append", default=[], metavar=("PATH", "FILE"))
    arguments = parser.parse_args()
    server = Server(arguments.latency, arguments.rate, arguments.each)
    for path, file in arguments.load:
        server.put(f"/{path}", pathlib.Path(file).read_bytes())
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
