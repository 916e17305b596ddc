"""Kills workers and nodes of a Ray cluster at random while it converts, and looks at what comes of it.

    python python/tests/kills.py [--rounds 50] [--seed 1]

A cluster of three nodes on this machine converts a checkpoint of 40 MiB from an object store of its own
(benches/peers/object_server.py), which sends slowly and notes what it sends; in turn to a directory and to the store. In every
round, one to three workers or nodes are killed by SIGKILL while tasks run; nodes are replaced before the next round. Afterwards:

- the output has the bytes of one process, and nothing is beside it; in the store, no upload either;
- no byte of the source beyond what an opening reads was sent more often than tasks began to run its item;
- no more tasks began than there are groups, tasks that were running where something was killed, and tasks that the driver started
  a second time because they were slow.

A round in which the conversion ended before anything was killed does not count. Needs the installed package, Ray and pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from conftest import ROOT
from ray.cluster_utils import Cluster
from test_ray import NODE, files, ray

import ckpt
import ckpt.ray

TENSORS, BYTES = 32, 1280 << 10
#: Bytes at the beginning that opening a file reads, and at the end that tell its format.
OPENING, ENDING = 64 << 10, 8
#: Processors of the nodes that may be killed; the driver's node has one, too.
PROCESSORS = (1, 2)
#: Bytes a second of a connection: a task takes a third of a second.
EACH = 4e6
SOURCE = "s3://bucket/in/model.safetensors"


class Store:
    """A running server, and the options with which it is reached."""

    def __init__(self) -> None:
        command = [sys.executable, str(ROOT / "benches/peers/object_server.py"), "--each", str(EACH)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
        ckpt.set_store_options(endpoint=self.url, region="us-east-1")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def put(self, path: str, content: bytes) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", content, method="PUT")).close()

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}/{path}") as answer:
            return bytes(answer.read())


class Killer(threading.Thread):
    """Kills workers and nodes while a conversion runs."""

    def __init__(self, cluster: Cluster, attempts: Path, chance: random.Random) -> None:
        super().__init__()
        self.cluster, self.attempts, self.chance = cluster, attempts, chance
        self.over = threading.Event()
        self.workers = 0
        #: The processors of each node that was killed.
        self.removed: list[int] = []

    def run(self) -> None:
        while not os.listdir(self.attempts) and not self.over.wait(0.02):
            pass
        for _ in range(self.chance.randint(1, 3)):
            if self.over.wait(self.chance.uniform(0, 2)):
                return
            if self.chance.random() < 0.4:
                self.kill_node()
            else:
                self.kill_worker()

    def kill_worker(self) -> None:
        pids = sorted({int(name.split("-")[2]) for name in os.listdir(self.attempts)})
        running = [pid for pid in pids if is_worker(pid)]
        if running:
            os.kill(self.chance.choice(running), signal.SIGKILL)
            self.workers += 1

    def kill_node(self) -> None:
        others = self.cluster.list_all_nodes()[1:]
        if others:
            node = self.chance.choice(others)
            self.cluster.remove_node(node, allow_graceful=False)
            self.removed.append(int(node._ray_params.num_cpus))

    @property
    def lost(self) -> int:
        """Tasks that may have been running where something was killed."""
        return self.workers + sum(self.removed)

    def replace_nodes(self) -> None:
        for processors in self.removed:
            self.cluster.add_node(num_cpus=processors, **NODE)


def is_worker(pid: int) -> bool:
    try:
        return b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def noted(attempts: Path, second: list[range]) -> None:
    """Has every task note that it begins, and the driver what it starts again."""
    run, begin = ckpt.ray._run_group, ckpt.ray._Groups.begin

    def noting(job: Any, start: int, stop: int) -> int:
        Path(attempts, f"{start}-{stop}-{os.getpid()}-{uuid.uuid4().hex}").touch()
        return run(job, start, stop)

    def noting_begin(self: Any, group: range) -> None:
        if any(each.group == group for each in self.running.values()):
            second.append(group)
        begin(self, group)

    ckpt.ray._run_group = noting
    ckpt.ray._Groups.begin = noting_begin  # type: ignore[method-assign]


def read_too_often(sent: list[tuple[str, int, int]], starts: list[int], begun: Counter[int]) -> list[str]:
    """Which tensors have a byte that was sent more often than tasks began to run their item. Bytes that every
    opening reads do not count."""
    found = []
    for item, start in enumerate(starts):
        edges: Counter[int] = Counter()
        for _, first, length in sent:
            low, high = max(first, start, OPENING), min(first + length, start + BYTES, starts[-1] + BYTES - ENDING)
            if low < high:
                edges[low] += 1
                edges[high] -= 1
        times = most = 0
        for edge in sorted(edges):
            times += edges[edge]
            most = max(most, times)
        if most > begun[item]:
            found.append(f"item {item}: a byte was sent {most} times, and {begun[item]} tasks began to run it")
    return found


class Round:
    """One conversion, and what it should have done."""

    def __init__(self, store: Store, cluster: Cluster, chance: random.Random, number: int, folder: Path) -> None:
        self.store, self.number, self.folder = store, number, folder
        self.is_local = number % 2 == 0
        self.attempts = folder / "attempts"
        self.attempts.mkdir()
        (folder / "out").mkdir()
        self.output = str(folder / "out" / "model.npz") if self.is_local else f"s3://bucket/out{number}/model.npz"
        self.second: list[range] = []
        self.killer = Killer(cluster, self.attempts, chance)

    def run(self) -> None:
        store = self.store
        json.loads(store.get("-/sent"))
        originals = ckpt.ray._run_group, ckpt.ray._Groups.begin
        noted(self.attempts, self.second)
        self.killer.start()
        try:
            ckpt.ray.convert(SOURCE, self.output, item_size=BYTES, item_group_bytes=BYTES, retries=20, sync=False)
        finally:
            self.killer.over.set()
            self.killer.join()
            ckpt.ray._run_group, ckpt.ray._Groups.begin = originals  # type: ignore[method-assign]
        self.sent = [each for each in json.loads(store.get("-/sent")) if each[0] == "/bucket/in/model.safetensors"]
        groups = [name.split("-") for name in os.listdir(self.attempts)]
        self.begun = Counter(item for start, stop, *_ in groups for item in range(int(start), int(stop)))
        self.tasks = len(groups)

    def wrong(self, expected: bytes, starts: list[int]) -> list[str]:
        """What is not as it should be."""
        wrong = read_too_often(self.sent, starts, self.begun)
        if sorted(self.begun) != list(range(TENSORS)):
            wrong.append(f"items {sorted(self.begun)} were run")
        most = TENSORS + self.killer.lost + len(self.second)
        if self.tasks > most:
            wrong.append(f"{self.tasks} tasks began, and {most} at most should have")
        if self.is_local:
            there = files(self.folder / "out")
            if list(there) != ["model.npz"] or there["model.npz"] != expected:
                wrong.append(f"the output's directory has {[(name, len(content)) for name, content in there.items()]}")
            return wrong
        left = json.loads(self.store.get("-/left"))
        place = f"/bucket/out{self.number}/"
        others = [key for key in left["objects"] if key.startswith(place)]
        if others != [f"{place}model.npz"] or self.store.get(f"bucket/out{self.number}/model.npz") != expected:
            wrong.append(f"the store has {others}, or other bytes")
        if left["uploads"]:
            wrong.append(f"{left['uploads']} uploads are left")
        return wrong


def make_source(store: Store, folder: Path) -> tuple[bytes, list[int]]:
    """Puts the source into the store. Returns what one process makes of it, and where its tensors begin."""
    generator = random.Random(7)
    tensors = {f"layer.{number:02}": memoryview(generator.randbytes(BYTES)) for number in range(TENSORS)}
    ckpt.save(tensors, folder / "model.safetensors", sync=False)
    content = (folder / "model.safetensors").read_bytes()
    store.put("bucket/in/model.safetensors", content)
    ckpt.convert(folder / "model.safetensors", folder / "alone.npz")
    starts = [content.index(bytes(tensor)[:64]) for tensor in tensors.values()]
    return (folder / "alone.npz").read_bytes(), starts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance, totals = random.Random(arguments.seed), Counter[str]()
    failed = number = 0
    with tempfile.TemporaryDirectory() as kept, Store() as store:
        expected, starts = make_source(store, Path(kept))
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **NODE})
        for processors in PROCESSORS:
            cluster.add_node(num_cpus=processors, **NODE)
        ray.init(address=cluster.address, _node_ip_address=NODE["node_ip_address"], log_to_driver=False)
        while totals["rounds"] < arguments.rounds:
            with tempfile.TemporaryDirectory(dir=kept) as folder:
                one = Round(store, cluster, chance, number, Path(folder))
                number, started = number + 1, time.monotonic()
                one.run()
                one.killer.replace_nodes()
                wrong = one.wrong(expected, starts)
            killer, sent = one.killer, sum(length for _, _, length in one.sent)
            print(
                f"{number}: {killer.workers} workers and {len(killer.removed)} nodes killed, {one.tasks} tasks for {TENSORS} "
                f"groups ({len(one.second)} because others were slow), source read {sent / TENSORS / BYTES:.2f} times, "
                f"{time.monotonic() - started:.0f} s, to {'a directory' if one.is_local else 'the store'}",
                *wrong, sep="\n  ", flush=True,
            )  # fmt: skip
            failed += bool(wrong)
            if killer.lost:
                totals.update(
                    rounds=1, workers=killer.workers, nodes=len(killer.removed), tasks=one.tasks, second=len(one.second), sent=sent
                )  # fmt: skip
        ray.shutdown()
        cluster.shutdown()
    print(
        f"{totals['rounds']} rounds, {failed} failed: {totals['workers']} workers and {totals['nodes']} nodes killed; "
        f"{totals['tasks']} tasks for {totals['rounds'] * TENSORS} groups, {totals['second']} of them because others were slow; "
        f"source read {totals['sent'] / TENSORS / BYTES / max(totals['rounds'], 1):.2f} times on average"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
