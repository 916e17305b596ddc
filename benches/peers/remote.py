"""Conversions from object storage to object storage, beside a download and an upload at once.

    python benches/peers/remote.py --ckpt target/release/ckpt [--gib 1] [--rounds 5] [--readme]

A server of this folder stands for the store: 20 ms for each request, 100 MB/s in each direction. The peer is boto3, whose
transfers are those of `aws s3 cp`: it downloads an object while it uploads a file of the same size. `ckpt` reads the object,
and writes another one, which must have the same bytes. Opening a set of 64 files is timed by its round trips: with a latency
of 200 ms and without one. Packages: tests/interop/requirements-remote.txt.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator

import boto3
import boto3.s3.transfer
import botocore.config
import harness
import object_server
import report
import safetensors_file
import words

LATENCY, RATE, TRIP = 0.02, 100e6, 0.2
SHARDS, TENSORS = 64, 20_000
MEMORY = "64m"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


class Store:
    """A running server."""

    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}"
        quiet = botocore.config.Config(
            request_checksum_calculation="when_required", response_checksum_validation="when_required", max_pool_connections=32
        )
        self.client = boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", config=quiet,
                                   aws_access_key_id="key", aws_secret_access_key="secret")

    def ckpt(self, program: str, folder: pathlib.Path, *arguments: str) -> harness.Cost:
        command = [program, *arguments, "--store-set", f"endpoint={self.url}"]
        return harness.measured(harness.Program("ckpt", command, folder / "any"))

    def requests(self) -> int:
        with urllib.request.urlopen(f"{self.url}/-/requests") as answer:
            return json.load(answer)

    def copy(self, folder: pathlib.Path) -> float:
        """A download and an upload at once, with what made up the link's rate best."""
        config = boto3.s3.transfer.TransferConfig(
            multipart_threshold=8 << 20, multipart_chunksize=8 << 20, max_concurrency=16
        )
        started = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(2) as both:
            down = both.submit(self.client.download_file, "b", "in.safetensors", str(folder / "down"), Config=config)
            up = both.submit(self.client.upload_file, str(folder / "in.safetensors"), "b", "copy", Config=config)
            down.result(), up.result()
        seconds = time.perf_counter() - started
        (folder / "down").unlink()
        return seconds


@contextlib.contextmanager
def serving(latency: float, rate: float = float("inf")) -> Iterator[Store]:
    with object_server.serving("--latency", latency, "--rate", rate) as port:
        yield Store(port)


def conversion(program: str, gib: float, rounds: int, folder: pathlib.Path) -> list[dict[str, str]]:
    source = folder / "in.safetensors"
    safetensors_file.write(folder / "given", {f"layer.{number}": int(gib * words.GIB) // 32 for number in range(32)})
    # As ckpt writes it, so that its output has the same bytes.
    subprocess.run([program, "convert", folder / "given", source, "--from", "safetensors", "-q"], check=True)
    (folder / "given").unlink()
    found: dict[str, list[float]] = {"copy": [], "ckpt": [], "mib": []}
    with serving(LATENCY, RATE) as store:
        store.client.upload_file(str(source), "b", "in.safetensors")
        for number in range(rounds + 1):
            copied = store.copy(folder)
            arguments = ["s3://b/in.safetensors", "s3://b/out.safetensors", "--max-memory", MEMORY, "-q", "--force"]
            cost = store.ckpt(program, folder, "convert", *arguments)
            if number:
                for key, value in (("copy", copied), ("ckpt", cost.wall), ("mib", cost.mib)):
                    found[key].append(value)
        store.client.download_file("b", "out.safetensors", str(folder / "out"))
    assert (folder / "out").read_bytes() == source.read_bytes(), "the output has other bytes"
    size = source.stat().st_size
    copy, own = (statistics.median(found[key]) for key in ("copy", "ckpt"))
    rate = lambda seconds: f"{words.time(seconds)}, {size / seconds / 1e6:.0f} MB/s"  # noqa: E731
    return [
        row(f"{words.size(size)} from object to object", rate(own), rate(copy), words.spread(words.ratio(found["copy"], found["ckpt"]))),
        row(f"its memory with `--max-memory {MEMORY}`", f"{words.memory(max(found['mib']))} MiB"),
    ]


def row(job: str, own: str, peer: str = "", faster: str = "") -> dict[str, str]:
    return {"job": job, "boto3": peer, "`ckpt`": own, "times as fast (least–most)": faster}


def opening(program: str, rounds: int, folder: pathlib.Path) -> dict[str, str]:
    """Round trips in time, and requests, of reading all headers of a set."""
    names = [f"m-{number + 1:05}-of-{SHARDS:05}.safetensors" for number in range(SHARDS)]
    owners = {f"layer.{number}.weight": names[number * SHARDS // TENSORS] for number in range(TENSORS)}
    for name in names:
        safetensors_file.write(folder / name, {tensor: 64 for tensor, owner in owners.items() if owner == name})
    index = folder / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": owners}))
    seconds: dict[float, list[float]] = {0.0: [], TRIP: []}
    for latency, times in seconds.items():
        with serving(latency) as store:
            for name in [*names, index.name]:
                store.client.upload_file(str(folder / name), "b", name)
            for _ in range(rounds):
                store.requests()
                cost = store.ckpt(program, folder, "inspect", f"s3://b/{index.name}", "--format", "json")
                times.append(cost.wall)
            requests = store.requests()
    trips = (statistics.median(seconds[TRIP]) - statistics.median(seconds[0.0])) / TRIP
    return row(f"opening {SHARDS} files with {TENSORS:,} tensors", f"{trips:.1f} round trips in time, {requests} requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--gib", type=float, default=1, help="bytes of the object")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=pathlib.Path, help="where files are made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    arguments = parser.parse_args()
    os.environ.update(KEYS)
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        folder = pathlib.Path(folder)
        said = (f"{words.rounds(arguments.rounds)} {words.on(harness.machine(arguments.ckpt, folder))}. The store answers after "
                f"{LATENCY * 1000:.0f} ms and sends {RATE / 1e6:.0f} MB/s in each direction.")
        rows = conversion(arguments.ckpt, arguments.gib, arguments.rounds, folder)
        rows.append(opening(arguments.ckpt, arguments.rounds, folder))
    report.finish({"remote": {"said": said, "rows": rows}}, arguments.readme)


if __name__ == "__main__":
    main()
