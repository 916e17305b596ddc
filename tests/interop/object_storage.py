#!/usr/bin/env python3
"""Converts to and from S3 as moto speaks it and Azure as azurite does, and looks at what is there with other code.

    python tests/interop/object_storage.py --ckpt target/debug/ckpt [--azurite FOLDER]

Packages: requirements-remote.txt; and azurite in FOLDER, a copy of `azurite` here in which npm has installed it. Each check is a
function below, and runs with both stores unless only one has what it is about; the last line counts them: `interop: 31 passed,
0 failed`. The program needs the feature `remote`.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from object_stores import BUCKET, S3, Azure, azurite, has_azurite, moto

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/data/digits"
CHECKS = []


def check(function):
    CHECKS.append((function, (S3, Azure)))
    return function


def check_of(*stores):
    """A check of what not all stores have."""
    def listed(function):
        CHECKS.append((function, stores))
        return function

    return listed


class World:
    """A program, a store, and a folder."""

    def __init__(self, ckpt: str, store: S3 | Azure, folder: pathlib.Path):
        self.program, self.store, self.folder = ckpt, store, folder
        self.keys, self.read, self.put, self.uploads = store.keys, store.read, store.put, store.uploads

    def at(self, key: str) -> str:
        """The address of an object."""
        return f"{self.store.scheme}://{BUCKET}/{key}"

    def start(self, *arguments, environment=None, endpoint=None) -> subprocess.Popen:
        """The program, in the background."""
        command = [self.program, *map(str, arguments), "--store-set", f"endpoint={endpoint or self.store.endpoint}"]
        return subprocess.Popen(command, env={**os.environ, **(environment or self.store.environment)}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def ended(self, process: subprocess.Popen) -> str:
        """What a process said, which is no credential."""
        text = process.communicate()[0]
        assert not any(secret in text for secret in self.store.secrets), f"a credential is shown: {text}"
        return text

    def run(self, *arguments, fails=False, environment=None) -> str:
        process = self.start(*arguments, environment=environment)
        text = self.ended(process)
        assert (process.returncode != 0) == fails, f"{process.args}: {process.returncode}\n{text}"
        return text


def removed(world: World, prefix: str) -> bool:
    """Whether parts that were sent are gone; in Azure, nobody can remove them, and they go after a week."""
    return (world.uploads(prefix) == []) == world.store.removes_parts


def large(path: pathlib.Path, mib: int, dtype="U8") -> pathlib.Path:
    """A safetensors file with one tensor of so many MiB, of small numbers, and a short one behind it."""
    size, width = mib << 20, {"U8": 1, "F32": 4}[dtype]
    header = {"w": {"dtype": dtype, "shape": [size // width], "data_offsets": [0, size]},
              "x": {"dtype": dtype, "shape": [4 // width], "data_offsets": [size, size + 4]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = bytes(range(1 << 6)) * (1 << 14)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for number in range(mib):
            file.write(block[number * 4:] + block[:number * 4])
        file.write(b"end.")
    return path


@check
def an_output_has_the_bytes_of_a_file_and_is_read_by_every_command(world):
    local = world.folder / "m.safetensors"
    world.run("convert", DIGITS, local)
    world.run("convert", DIGITS, world.at("a/m.safetensors"), "--verify", "--receipt", world.at("a/r.json"))
    assert world.keys("a/") == ["a/m.safetensors", "a/r.json"]
    assert world.read("a/m.safetensors") == local.read_bytes()
    receipt = world.read("a/r.json").decode()
    assert world.at("a") in receipt and not any(secret in receipt for secret in world.store.secrets)
    address = world.at("a/m.safetensors")
    world.run("inspect", address)
    world.run("diff", address, local)
    assert world.run("hash", address).split()[0] == world.run("hash", local).split()[0]
    world.run("convert", address, world.folder / "back.safetensors")
    assert (world.folder / "back.safetensors").read_bytes() == local.read_bytes()


@check
def a_large_output_is_sent_in_parts_within_the_budget(world):
    made = large(world.folder / "large.safetensors", 70)
    source = world.folder / "own.safetensors"
    world.run("convert", made, source)
    world.run("convert", made, world.at("large/m.safetensors"), "--max-memory", "64m")
    assert world.read("large/m.safetensors") == source.read_bytes()
    assert world.store.parts("large/m.safetensors") == 5
    world.run("convert", world.at("large/m.safetensors"), world.folder / "l.safetensors", "--max-memory", "64m")
    assert (world.folder / "l.safetensors").read_bytes() == source.read_bytes()
    assert world.uploads("large/") == []


@check
def a_set_and_a_tensorflow_checkpoint_are_written_and_read(world):
    for to, name, shown in [("safetensors", "m.safetensors", "m.safetensors.index.json"), ("tf2", "ckpt-1", "ckpt-1")]:
        world.run("convert", DIGITS, world.at(f"{to}/{name}"), "--to", to, "--shard-size", "8k", "--allow", "all")
        world.run("convert", DIGITS, world.folder / name, "--to", to, "--shard-size", "8k", "--allow", "all")
        local = sorted(path.name for path in world.folder.glob(f"{name.split('.')[0]}*"))
        keys = world.keys(f"{to}/")
        assert len(keys) > 2
        for key in keys:
            name = key.split("/")[1]
            assert name in local and world.read(key) == (world.folder / name).read_bytes(), key
        world.run("diff", world.at(f"{to}/{shown}"), world.folder / shown)


@check
def an_output_that_exists_is_replaced_only_with_force(world):
    address = world.at("old/m.npz")
    world.put("old/m.npz", b"old")
    text = world.run("convert", DIGITS, address, "--allow", "all", fails=True)
    assert "the output exists" in text and world.read("old/m.npz") == b"old"
    world.run("convert", DIGITS, address, "--allow", "all", "--force")
    assert world.read("old/m.npz")[:2] == b"PK"


@check
def a_conversion_that_fails_half_way_leaves_no_object_and_no_upload(world):
    source = large(world.folder / "broken.safetensors", 100, "F32")
    # The last number is too large for the new dtype; parts were sent by then.
    with source.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\xff\xff\x7f\x7f")
    text = world.run("convert", source, world.at("broken/m.safetensors"), "--dtype", "f16", "-j1", fails=True)
    assert "too large" in text, text
    assert world.keys("broken/") == [] and removed(world, "broken/")


@check
def a_directory_and_a_prefix_are_inputs(world):
    world.run("convert", DIGITS, world.at("dir/m.safetensors"))
    assert "safetensors" in world.run("inspect", world.at("dir"))
    assert "safetensors" in world.run("inspect", world.at("dir/"))


@check
def items_of_four_processes_one_of_them_killed_give_the_bytes_of_one(world):
    made = large(world.folder / "many.safetensors", 64)
    for number, (name, options) in enumerate([
        ("m.safetensors", []),
        ("m.npz", ["--allow", "all"]),
        ("ckpt-1", ["--to", "tf2", "--set", "shards=2", "--allow", "all"]),
    ]):
        local = world.folder / f"local{number}"
        local.mkdir()
        world.run("convert", made, local / name, *options)
        out = f"many{number}"
        plan, receipts = world.at(f"{out}/run/plan.json"), world.at(f"{out}/run/receipts")
        world.run("plan", made, world.at(f"{out}/o/{name}"), "--output", plan, "--item-size", "4m", *options)
        assert "exists" in world.run("plan", made, world.at(f"{out}/o/{name}"), "-o", plan, *options, fails=True)
        saved = world.read(f"{out}/run/plan.json").decode()
        assert not any(secret in saved for secret in world.store.secrets)
        items = len(json.loads(saved)["items"])
        assert items > 15, items
        quarter = items // 4
        ranges = [f"{start}..{end}" for start, end in
                  [(0, quarter), (quarter, 2 * quarter), (2 * quarter, 3 * quarter), (3 * quarter, items)]]
        run = lambda those: world.start("run-plan", plan, "--items", those, "--receipts", receipts, "-j1", "-q")  # noqa: E731
        processes = [run(ranges[0])]
        # Processes that begin at once begin uploads, too, and all but one abort theirs, unless they are killed before.
        deadline = time.monotonic() + 30
        while not world.keys(f"{out}/o/.ckpt-") and time.monotonic() < deadline:
            time.sleep(0.01)
        processes += [run(those) for those in ranges[1:]]
        time.sleep(0.4)
        processes[1].kill()
        for process, those in zip(processes, ranges):
            error = world.ended(process)
            assert process.returncode == 0 or process is processes[1], f"{those}: {error}"
        # One that is killed after its last receipt has run all its items.
        killed = processes[1].returncode != 0 and len(world.keys(f"{out}/run/receipts/")) < items
        assert all("/.ckpt-" in key for key in world.keys(f"{out}/o/")), world.keys(f"{out}/o/")
        if killed:
            assert "have not run" in world.run("commit", plan, receipts, fails=True)
        world.run("run-plan", plan, "--receipts", receipts, "-q")
        receipt = world.at(f"{out}/run/receipt.json")
        text = world.run("commit", plan, receipts, "--verify", "--receipt", receipt)
        assert "verified after the commit" in text and receipt in text, text
        assert "match the receipt" in world.run("verify", "--receipt", receipt)
        expected = sorted(path.name for path in local.iterdir())
        assert [key.split("/")[-1] for key in world.keys(f"{out}/o/")] == expected
        for name in expected:
            assert world.read(f"{out}/o/{name}") == (local / name).read_bytes(), name
        assert world.uploads(f"{out}/") == []
        print(f"{world.store.name}: {expected}: {items} items, {'killed' if killed else 'not killed in time'}")


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    """The files below a folder, by their paths from there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@check
def a_folder_of_orbax_is_written_by_several_processes_and_its_steps_are_read(world):
    made = large(world.folder / "jax.safetensors", 40)
    for number, layout in enumerate(("v0", "v1")):
        options = ["--to", "orbax", "--set", f"layout={layout}", "--set", "chunk=4m"]
        local, there = world.folder / layout, f"jax/{layout}/{number}"
        world.run("convert", made, local, *options)
        plan, receipts = world.at(f"jax/{layout}.json"), world.at(f"jax/receipts-{layout}")
        world.run("plan", made, world.at(there), "--output", plan, "--item-size", "5m", *options)
        items = len(json.loads(world.read(f"jax/{layout}.json"))["items"])
        assert items > 5, items
        half = items // 2
        processes = [world.start("run-plan", plan, "--items", those, "--receipts", receipts, "-j1", "-q")
                     for those in (f"0..{half}", f"{half}..{items}")]
        for process in processes:
            said = world.ended(process)
            assert process.returncode == 0, said
        world.run("commit", plan, receipts)
        expected = files_of(local)
        assert [key.removeprefix(f"{there}/") for key in world.keys(f"{there}/")] == sorted(expected)
        for name, data in expected.items():
            assert world.read(f"{there}/{name}") == data, name
        assert world.uploads("jax/") == []
        # The folder of steps, and the step itself.
        for address in (world.at(f"jax/{layout}"), world.at(there)):
            world.run("diff", address, made)
            back = world.folder / "back.safetensors"
            world.run("convert", address, back, "--force")
            world.run("diff", back, made)


@check
def what_items_wrote_is_discarded(world):
    made = large(world.folder / "gone.safetensors", 40)
    plan, receipts = world.at("gone/plan"), world.folder / "receipts"
    world.run("plan", made, world.at("gone/m.safetensors"), "--output", plan, "--item-size", "5m")
    world.run("run-plan", plan, "--items", "0..7", "--receipts", receipts)
    assert len(world.keys("gone/.ckpt-")) > 2 and world.uploads("gone/") == ["gone/m.safetensors"]
    world.run("commit", plan, receipts, "--discard")
    assert world.keys("gone/") == ["gone/plan"] and removed(world, "gone/")


@check
def a_commit_is_refused_once_the_output_is_there_and_another_plan_while_it_is_not(world):
    for name, dtype in [("one", "f16"), ("two", "f32")]:
        world.run("plan", DIGITS, world.at("plans/m.safetensors"), "-o", world.at(f"plans/{name}.json"),
                  "--dtype", dtype)
    one, two = [(world.at(f"plans/{name}.json"), world.at(f"plans/{name}")) for name in ("one", "two")]
    world.run("run-plan", one[0], "--receipts", one[1])
    assert "another plan" in world.run("run-plan", two[0], "--receipts", two[1], fails=True)
    world.run("commit", *one)
    assert "the output exists" in world.run("commit", *one, fails=True)
    assert world.keys("plans/.ckpt") == []


@check
def what_is_not_there_is_an_error_that_names_it(world):
    assert world.at("none.npz") in world.run("inspect", world.at("none.npz"), fails=True)
    other = world.at("m.npz").replace(BUCKET, "no-bucket")
    assert other in world.run("inspect", other, fails=True)


@check
def of_two_writers_of_one_large_output_one_wins(world):
    """Both look whether the name is free before either has given it."""
    source = large(world.folder / "large.safetensors", 40)
    writers = [world.start("convert", source, world.at("race/m.safetensors"), "-q") for _ in range(4)]
    said = [world.ended(writer) for writer in writers]
    won = [writer.returncode == 0 for writer in writers]
    assert any(won) and all(ok or "the output exists" in text for ok, text in zip(won, said)), said
    world.run("diff", source, world.at("race/m.safetensors"))
    assert world.uploads("race/") == []


@check_of(S3)
def what_killed_processes_left_is_found_and_removed(world):
    for name in [*(f"killed/m-{number}" for number in range(3)), "killed-not/m"]:
        world.store.begin(f"{name}.safetensors")
    below = world.at("killed/")
    # moto says that every upload was begun in 2010.
    text = world.run("clean", below, "--older-than", "36500d")
    assert text.count(f"left the unfinished upload of {below}m-") == 3, text
    text = world.run("clean", below, "--dry-run")
    assert text.count("would remove the unfinished upload") == 3 and len(world.uploads()) == 4, text
    found = json.loads(world.run("clean", f"{below}m-1", "--older-than", "0s", "--format", "json"))["leftovers"]
    assert [entry["file"] for entry in found] == [f"{below}m-1.safetensors"] and found[0]["removed"], found
    text = world.run("clean", below)
    assert text.count("removed the unfinished upload") == 2, text
    assert world.uploads() == ["killed-not/m.safetensors"]
    assert "nothing was left" in world.run("clean", below)
    world.run("clean", world.at(""), "--older-than", "0s")
    assert world.uploads() == []


@check_of(Azure)
def uploads_that_killed_processes_left_are_not_listed_and_a_note_says_when_they_go(world):
    assert "after a week" in world.run("clean", world.at("killed/"))


@check
def staging_directories_that_nobody_commits_are_removed_and_young_ones_are_left(world):
    made = large(world.folder / "stale.safetensors", 40)
    plan, below = world.at("stale/plan"), world.at("stale/")
    world.run("plan", made, f"{below}m.safetensors", "--output", plan, "--item-size", "5m")
    world.run("run-plan", plan, "--items", "0..7", "--receipts", world.folder / "receipts")
    world.put("stale/.ckpt-notes/mine", b"mine")
    for key in ("plan-0123456789abcdef.gz", "receipts/012345678901-00000000.receipt.json"):
        world.put(f"stale/.m.safetensors.ckpt-staging/{key}", b"{}")
    before = world.keys("stale/")
    assert len(before) > 6 and len(world.uploads("stale/")) == 1, before
    # moto says that every upload was begun in 2010; this one is as old as its directory.
    text = world.run("clean", below)
    assert text.count("left the staging directory") == 2 and "the unfinished upload of" not in text, text
    text = world.run("clean", below, "--older-than", "0s", "--dry-run")
    assert text.count(f"would remove the staging directory {below}.") == 2, text
    assert "nothing was left below" in world.run("clean", f"{below}n", "--older-than", "0s")
    assert world.keys("stale/") == before and len(world.uploads("stale/")) == 1
    text = world.run("clean", f"{below}m.safe", "--older-than", "0s", "--format", "json")
    found = json.loads(text)["leftovers"]
    assert [(entry["kind"], entry["removed"]) for entry in found] == [("staging", True)] * 2, found
    assert world.keys("stale/") == ["stale/.ckpt-notes/mine", "stale/plan"] and removed(world, "stale/")


class Between(http.server.BaseHTTPRequestHandler):
    """Hands requests on to the server `host`."""

    protocol_version = "HTTP/1.1"
    host = ""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def hand_on(self, body: bytes, status: int | None = None, before=lambda: None) -> None:
        """Answers with what the server answers, or with another status; `before` is called before the answer is sent."""
        client = http.client.HTTPConnection(self.host)
        client.request(self.command, self.path, body, dict(self.headers))
        answer = client.getresponse()
        content = answer.read()
        before()
        self.send_response(status or answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer(self) -> None:
        self.hand_on(self.body())

    def do_GET(self):
        self.answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(handler: type[Between], endpoint: str):
    """A server that hands requests on to another one. Yields its address."""
    handler.host = endpoint.removeprefix("http://")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def between(endpoint, loses_answer=False):
    """A server that hands requests on, but for the one that notes which uploads were begun: that one is not answered until the
    end, or handed on and answered with an error. Yields its address, and an event: whether that request has come."""
    came, over = threading.Event(), threading.Event()

    class Handler(Between):
        def answer(self):
            body = self.body()
            is_note = self.command == "PUT" and self.path.endswith("/staging.json")
            if is_note:
                came.set()
            if is_note and not loses_answer:
                over.wait()
                self.close_connection = True
                return
            # Such an error is not tried again.
            self.hand_on(body, 400 if is_note else None)

    with served(Handler, endpoint) as address:
        try:
            yield address, came
        finally:
            over.set()


@contextlib.contextmanager
def slow(endpoint, seconds):
    """A server that hands requests on after some time. Yields its address, and when each request came, was answered, and what it
    was."""
    spans = []

    class Handler(Between):
        def answer(self):
            came, body = time.monotonic(), self.body()
            time.sleep(seconds)
            self.hand_on(body, before=lambda: spans.append((came, time.monotonic(), f"{self.command} {self.path}")))

    with served(Handler, endpoint) as address:
        yield address, spans


def round_trips(spans) -> int:
    """The most requests of which each came after the answer to the one before."""
    count, last = 0, 0.0
    for came, answered, _ in sorted(spans, key=lambda span: span[1]):
        if came > last:
            count, last = count + 1, answered
    return count


@check_of(S3)
def a_checkpoint_of_orbax_is_opened_in_few_round_trips(world):
    for tensors, nodes in ((3, 1), (20_000, 11)):
        header = {f"layer_{number}": {"dtype": "F32", "shape": [2], "data_offsets": [8 * number, 8 * number + 8]}
                  for number in range(tensors)}
        text = json.dumps(header).encode()
        source, local = world.folder / f"{tensors}.safetensors", world.folder / f"{tensors}"
        source.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8 * tensors))
        world.run("convert", source, local, "--to", "orbax")
        for name, data in files_of(local).items():
            world.put(f"trips/{tensors}/{name}", data)
        with slow(world.store.endpoint, 0.05) as (endpoint, spans):
            process = world.start("inspect", world.at(f"trips/{tensors}"), "--depth", "1", "--format", "json", endpoint=endpoint)
            said = world.ended(process)
        assert process.returncode == 0, said[:1000]
        trips = round_trips(spans)
        print(f"{tensors} arrays in {nodes} nodes: {trips} round trips, {len(spans)} requests")
        assert 0 < trips <= 6 + nodes / 16, [what for *_, what in spans]


@check_of(S3)
def the_upload_of_a_process_that_is_killed_before_it_notes_it_is_removed_and_not_that_of_the_others(world):
    made = large(world.folder / "header.safetensors", 40)
    local = world.folder / "local.safetensors"
    world.run("convert", made, local)
    plan, below, receipts = world.at("header/plan"), world.at("header/"), world.folder / "receipts"
    world.run("plan", made, f"{below}m.safetensors", "--output", plan, "--item-size", "5m")
    with between(world.store.endpoint) as (endpoint, came):
        killed = world.start("run-plan", plan, "--items", "0..2", "--receipts", receipts, "-q", endpoint=endpoint)
        assert came.wait(60), killed.communicate()
        assert len(world.uploads("header/")) == 1 and world.keys("header/") == ["header/plan"]
        # Another process begins the output meanwhile.
        world.run("run-plan", plan, "--receipts", receipts)
        assert len(world.uploads("header/")) == 2
        killed.kill()
        killed.communicate()
    text = world.run("clean", below, "--dry-run")
    assert text.count("would remove the unfinished upload") == 1 and "left the staging directory" in text, text
    world.run("clean", below)
    assert len(world.uploads("header/")) == 1
    world.run("commit", plan, receipts)
    assert world.read("header/m.safetensors") == local.read_bytes()
    assert world.uploads("header/") == [] and world.keys("header/") == ["header/m.safetensors", "header/plan"]


@check_of(S3)
def uploads_that_were_noted_are_used_although_the_answer_was_lost(world):
    made = large(world.folder / "lost.safetensors", 40)
    local = world.folder / "local.safetensors"
    world.run("convert", made, local)
    plan, receipts = world.at("lost/plan"), world.folder / "receipts"
    world.run("plan", made, world.at("lost/m.safetensors"), "--output", plan, "--item-size", "5m")
    with between(world.store.endpoint, loses_answer=True) as (endpoint, came):
        process = world.start("run-plan", plan, "--items", "0..3", "--receipts", receipts, "-q", endpoint=endpoint)
        said = world.ended(process)
        assert process.returncode == 0 and came.is_set(), said
    assert len(world.uploads("lost/")) == 1
    world.run("run-plan", plan, "--receipts", receipts)
    world.run("commit", plan, receipts)
    assert world.read("lost/m.safetensors") == local.read_bytes() and world.uploads("lost/") == []


@check
def a_process_that_is_killed_leaves_no_object_and_the_next_one_converts(world):
    source, output = large(world.folder / "large.safetensors", 120), world.at("half/m.safetensors")
    process = world.start("convert", source, output, "-j1")
    while process.poll() is None and not world.uploads("half/"):
        time.sleep(0.01)
    process.kill()
    world.ended(process)
    assert process.returncode != 0 and world.keys("half/") == [] and world.uploads("half/") == ["half/m.safetensors"]
    if world.store.removes_parts:
        world.run("clean", output, "--older-than", "0s")
        assert world.uploads("half/") == []
    world.run("convert", source, output)
    assert world.keys("half/") == ["half/m.safetensors"] and world.uploads("half/") == []
    world.run("diff", source, output)


@check_of(Azure)
def a_token_is_as_good_as_a_key_and_is_not_shown_where_it_does_not_suffice(world):
    world.run("convert", DIGITS, world.at("token/m.safetensors"))
    token = world.store.signature()
    by_token = {"AZURE_STORAGE_ACCOUNT_NAME": world.store.ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": token}
    said = [world.run("inspect", world.at("token/m.safetensors"), environment=by_token)]
    for arguments in [("inspect", world.at("none.npz")), ("convert", DIGITS, world.at("token/new.safetensors")),
                      ("convert", large(world.folder / "m.safetensors", 40), world.at("token/new.safetensors"))]:
        said.append(world.run(*arguments, fails=True, environment=by_token))
    assert not any("sig=" in text or token[-20:] in text for text in said), said
    assert world.keys("token/") == ["token/m.safetensors"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", default="target/debug/ckpt")
    parser.add_argument("--azurite", type=pathlib.Path, help="the folder in which npm has installed azurite")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(moto())]
        if has_azurite(arguments.azurite):
            stores.append(stack.enter_context(azurite(arguments.azurite)))
        else:
            print("Azure was NOT tried: there is no azurite, or no node to run it (see --azurite)")
        # Most of the time is waiting: each store has a thread.
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(stores)))
        results = [is_right for those in threads.map(lambda store: checked(arguments.ckpt, store), stores) for is_right in those]
    print(f"interop: {results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


def checked(ckpt: str, store: S3 | Azure) -> list[bool]:
    return [passes(function, ckpt, store) for function, those in CHECKS if type(store) in those]


def passes(function, ckpt: str, store: S3 | Azure) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(World(ckpt, store, pathlib.Path(folder)))
        except Exception:
            print(f"FAILED {store.name}: {function.__name__}\n{traceback.format_exc()}", file=sys.stderr)
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
