#!/usr/bin/env python3
"""Converts to and from S3 as moto speaks it, and looks at the bucket with boto3.

    python tests/interop/object_storage.py --ckpt target/debug/ckpt     (packages: requirements-remote.txt)

Each check is a function below; the last line counts them: `interop: 16 passed, 0 failed`. The program needs the feature `remote`.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import boto3
from moto.server import ThreadedMotoServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/data/digits"
KEYS = {"AWS_ACCESS_KEY_ID": "key_of_the_test", "AWS_SECRET_ACCESS_KEY": "secret_of_the_test", "AWS_REGION": "us-east-1"}
BUCKET = "bucket"
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class World:
    """A program, a bucket, and a folder."""

    def __init__(self, ckpt: str, endpoint: str, folder: pathlib.Path):
        self.program, self.endpoint, self.folder = ckpt, endpoint, folder
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"], aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def run(self, *arguments, fails=False) -> str:
        environment = {**os.environ, **KEYS}
        command = [self.program, *map(str, arguments), "--store-set", f"endpoint={self.endpoint}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
        text = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, f"{command}: {done.returncode}\n{text}"
        assert "of_the_test" not in text, f"a credential is shown: {text}"
        return text

    def keys(self, prefix="") -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return sorted(entry["Key"] for entry in found.get("Contents", []))

    def read(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def uploads(self) -> list:
        return self.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


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
    world.run("convert", DIGITS, f"s3://{BUCKET}/a/m.safetensors", "--verify", "--receipt", f"s3://{BUCKET}/a/r.json")
    assert world.keys("a/") == ["a/m.safetensors", "a/r.json"]
    assert world.read("a/m.safetensors") == local.read_bytes()
    assert b"of_the_test" not in world.read("a/r.json") and b"s3://bucket/a" in world.read("a/r.json")
    address = f"s3://{BUCKET}/a/m.safetensors"
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
    world.run("convert", made, f"s3://{BUCKET}/large/m.safetensors", "--max-memory", "64m")
    assert world.read("large/m.safetensors") == source.read_bytes()
    etag = world.s3.head_object(Bucket=BUCKET, Key="large/m.safetensors")["ETag"]
    assert etag.strip('"').endswith("-5"), etag
    world.run("convert", f"s3://{BUCKET}/large/m.safetensors", world.folder / "l.safetensors", "--max-memory", "64m")
    assert (world.folder / "l.safetensors").read_bytes() == source.read_bytes()
    assert world.uploads() == []


@check
def a_set_and_a_tensorflow_checkpoint_are_written_and_read(world):
    for to, name, shown in [("safetensors", "m.safetensors", "m.safetensors.index.json"), ("tf2", "ckpt-1", "ckpt-1")]:
        world.run("convert", DIGITS, f"s3://{BUCKET}/{to}/{name}", "--to", to, "--shard-size", "8k", "--allow", "all")
        world.run("convert", DIGITS, world.folder / name, "--to", to, "--shard-size", "8k", "--allow", "all")
        local = sorted(path.name for path in world.folder.glob(f"{name.split('.')[0]}*"))
        keys = world.keys(f"{to}/")
        assert len(keys) > 2
        for key in keys:
            name = key.split("/")[1]
            assert name in local and world.read(key) == (world.folder / name).read_bytes(), key
        world.run("diff", f"s3://{BUCKET}/{to}/{shown}", world.folder / shown)


@check
def an_output_that_exists_is_replaced_only_with_force(world):
    address = f"s3://{BUCKET}/old/m.npz"
    world.s3.put_object(Bucket=BUCKET, Key="old/m.npz", Body=b"old")
    text = world.run("convert", DIGITS, address, "--allow", "all", fails=True)
    assert "the output exists" in text and world.read("old/m.npz") == b"old"
    world.run("convert", DIGITS, address, "--allow", "all", "--force")
    assert world.read("old/m.npz")[:2] == b"PK"


@check
def a_conversion_that_fails_half_way_leaves_no_object_and_no_upload(world):
    source = large(world.folder / "broken.safetensors", 40, "F32")
    # The last number is too large for the new dtype; the first part was sent by then.
    with source.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\xff\xff\x7f\x7f")
    text = world.run("convert", source, f"s3://{BUCKET}/broken/m.safetensors", "--dtype", "f16", "-j1", fails=True)
    assert "too large" in text, text
    assert world.keys("broken/") == [] and world.uploads() == []


@check
def a_directory_and_a_prefix_are_inputs(world):
    world.run("convert", DIGITS, f"s3://{BUCKET}/dir/m.safetensors")
    assert "safetensors" in world.run("inspect", f"s3://{BUCKET}/dir")
    assert "safetensors" in world.run("inspect", f"s3://{BUCKET}/dir/")


def run_items(world, plan, receipts, items, endpoint=None):
    """A process that runs items, in the background."""
    command = [world.program, "run-plan", plan, "--items", items, "--receipts", receipts, "-j1", "-q",
               "--store-set", f"endpoint={endpoint or world.endpoint}"]
    return subprocess.Popen(command, env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@check
def items_of_four_processes_one_of_them_killed_give_the_bytes_of_one(world):
    made = large(world.folder / "many.safetensors", 100)
    for number, (name, options) in enumerate([
        ("m.safetensors", []),
        ("m.npz", ["--allow", "all"]),
        ("ckpt-1", ["--to", "tf2", "--set", "shards=2", "--allow", "all"]),
    ]):
        local = world.folder / f"local{number}"
        local.mkdir()
        world.run("convert", made, local / name, *options)
        out = f"many{number}"
        plan, receipts = f"s3://{BUCKET}/{out}/run/plan.json", f"s3://{BUCKET}/{out}/run/receipts"
        world.run("plan", made, f"s3://{BUCKET}/{out}/o/{name}", "--output", plan, "--item-size", "5m", *options)
        assert "exists" in world.run("plan", made, f"s3://{BUCKET}/{out}/o/{name}", "-o", plan, *options, fails=True)
        items = len(json.loads(world.read(f"{out}/run/plan.json"))["items"])
        assert items > 12, items
        quarter = items // 4
        ranges = [f"{start}..{end}" for start, end in
                  [(0, quarter), (quarter, 2 * quarter), (2 * quarter, 3 * quarter), (3 * quarter, items)]]
        processes = [run_items(world, plan, receipts, ranges[0])]
        # Processes that begin at once begin uploads, too, and all but one abort theirs, unless they are killed before.
        deadline = time.monotonic() + 30
        while not world.keys(f"{out}/o/.ckpt-") and time.monotonic() < deadline:
            time.sleep(0.01)
        processes += [run_items(world, plan, receipts, those) for those in ranges[1:]]
        time.sleep(0.4)
        processes[1].kill()
        for process, those in zip(processes, ranges):
            error = process.communicate()[1]
            assert process.returncode == 0 or process is processes[1], f"{those}: {error}"
        killed = processes[1].returncode != 0
        assert all("/.ckpt-" in key for key in world.keys(f"{out}/o/")), world.keys(f"{out}/o/")
        if killed:
            assert "have not run" in world.run("commit", plan, receipts, fails=True)
        world.run("run-plan", plan, "--receipts", receipts, "-q")
        receipt = f"s3://{BUCKET}/{out}/run/receipt.json"
        text = world.run("commit", plan, receipts, "--verify", "--receipt", receipt)
        assert "verified after the commit" in text and receipt in text, text
        assert "match the receipt" in world.run("verify", "--receipt", receipt)
        expected = sorted(path.name for path in local.iterdir())
        assert [key.split("/")[-1] for key in world.keys(f"{out}/o/")] == expected
        for name in expected:
            assert world.read(f"{out}/o/{name}") == (local / name).read_bytes(), name
        assert world.uploads() == []
        print(f"{expected}: {items} items, {'killed' if killed else 'not killed in time'}")


@check
def what_items_wrote_is_discarded(world):
    made = large(world.folder / "gone.safetensors", 40)
    plan, receipts = f"s3://{BUCKET}/gone/plan", world.folder / "receipts"
    world.run("plan", made, f"s3://{BUCKET}/gone/m.safetensors", "--output", plan, "--item-size", "5m")
    world.run("run-plan", plan, "--items", "0..6", "--receipts", receipts)
    assert len(world.keys("gone/.ckpt-")) > 2 and len(world.uploads()) == 1
    world.run("commit", plan, receipts, "--discard")
    assert world.keys("gone/") == ["gone/plan"] and world.uploads() == []


@check
def a_commit_is_refused_once_the_output_is_there_and_another_plan_while_it_is_not(world):
    for name, dtype in [("one", "f16"), ("two", "f32")]:
        world.run("plan", DIGITS, f"s3://{BUCKET}/plans/m.safetensors", "-o", f"s3://{BUCKET}/plans/{name}.json",
                  "--dtype", dtype)
    one, two = [(f"s3://{BUCKET}/plans/{name}.json", f"s3://{BUCKET}/plans/{name}") for name in ("one", "two")]
    world.run("run-plan", one[0], "--receipts", one[1])
    assert "another plan" in world.run("run-plan", two[0], "--receipts", two[1], fails=True)
    world.run("commit", *one)
    assert "the output exists" in world.run("commit", *one, fails=True)
    assert world.keys("plans/.ckpt") == []


@check
def what_is_not_there_is_an_error_that_names_it(world):
    assert f"s3://{BUCKET}/none.npz" in world.run("inspect", f"s3://{BUCKET}/none.npz", fails=True)
    assert "s3://no-bucket/m.npz" in world.run("inspect", "s3://no-bucket/m.npz", fails=True)


@check
def of_two_writers_of_one_large_output_one_wins(world):
    """Both look whether the name is free before either has given it."""
    source = large(world.folder / "large.safetensors", 40)
    command = [world.program, "convert", str(source), f"s3://{BUCKET}/race/m.safetensors", "--store-set",
               f"endpoint={world.endpoint}"]
    run = dict(env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    writers = [subprocess.Popen(command, **run) for _ in range(4)]
    said = [writer.communicate()[1] for writer in writers]
    won = [writer.returncode == 0 for writer in writers]
    assert any(won) and all(ok or "the output exists" in text for ok, text in zip(won, said)), said
    world.run("diff", source, f"s3://{BUCKET}/race/m.safetensors")
    assert world.uploads() == []


@check
def what_killed_processes_left_is_found_and_removed(world):
    for number in range(3):
        world.s3.create_multipart_upload(Bucket=BUCKET, Key=f"killed/m-{number}.safetensors")
    world.s3.create_multipart_upload(Bucket=BUCKET, Key="killed-not/m.safetensors")
    below = f"s3://{BUCKET}/killed/"
    # moto says that every upload was begun in 2010.
    text = world.run("clean", below, "--older-than", "36500d")
    assert text.count("left the unfinished upload of s3://bucket/killed/m-") == 3, text
    text = world.run("clean", below, "--dry-run")
    assert text.count("would remove the unfinished upload") == 3 and len(world.uploads()) == 4, text
    found = json.loads(world.run("clean", f"{below}m-1", "--older-than", "0s", "--format", "json"))["leftovers"]
    assert [entry["file"] for entry in found] == [f"{below}m-1.safetensors"] and found[0]["removed"], found
    text = world.run("clean", below)
    assert text.count("removed the unfinished upload") == 2, text
    assert [upload["Key"] for upload in world.uploads()] == ["killed-not/m.safetensors"]
    assert "nothing was left" in world.run("clean", below)
    world.run("clean", f"s3://{BUCKET}/", "--older-than", "0s")
    assert world.uploads() == []


@check
def staging_directories_that_nobody_commits_are_removed_and_young_ones_are_left(world):
    made = large(world.folder / "stale.safetensors", 40)
    plan, below = f"s3://{BUCKET}/stale/plan", f"s3://{BUCKET}/stale/"
    world.run("plan", made, f"{below}m.safetensors", "--output", plan, "--item-size", "5m")
    world.run("run-plan", plan, "--items", "0..6", "--receipts", world.folder / "receipts")
    world.s3.put_object(Bucket=BUCKET, Key="stale/.ckpt-notes/mine", Body=b"mine")
    for key in ("plan-0123456789abcdef.gz", "receipts/012345678901-00000000.receipt.json"):
        world.s3.put_object(Bucket=BUCKET, Key=f"stale/.m.safetensors.ckpt-staging/{key}", Body=b"{}")
    before = world.keys("stale/")
    assert len(before) > 6 and len(world.uploads()) == 1, before
    # moto says that every upload was begun in 2010; this one is as old as its directory.
    text = world.run("clean", below)
    assert text.count("left the staging directory") == 2 and "upload" not in text, text
    text = world.run("clean", below, "--older-than", "0s", "--dry-run")
    assert text.count("would remove the staging directory s3://bucket/stale/.") == 2, text
    assert "nothing was left below" in world.run("clean", f"{below}n", "--older-than", "0s")
    assert world.keys("stale/") == before and len(world.uploads()) == 1
    text = world.run("clean", f"{below}m.safe", "--older-than", "0s", "--format", "json")
    found = json.loads(text)["leftovers"]
    assert [(entry["kind"], entry["removed"]) for entry in found] == [("staging", True)] * 2, found
    assert world.keys("stale/") == ["stale/.ckpt-notes/mine", "stale/plan"] and world.uploads() == []


@contextlib.contextmanager
def between(endpoint, loses_answer=False):
    """A server that hands requests on, but for the one that notes which uploads were begun: that one is not answered until the
    end, or handed on and answered with an error. Yields its address, and an event: whether that request has come."""
    came, over = threading.Event(), threading.Event()
    host = endpoint.removeprefix("http://")

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def hand_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_note = self.command == "PUT" and self.path.endswith("/staging.json")
            if is_note:
                came.set()
            if is_note and not loses_answer:
                over.wait()
                self.close_connection = True
                return
            client = http.client.HTTPConnection(host)
            client.request(self.command, self.path, body, dict(self.headers))
            answer = client.getresponse()
            content = answer.read()
            # Such an error is not tried again.
            self.send_response(400 if is_note else answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = hand_on

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            over.set()
            server.shutdown()


@check
def the_upload_of_a_process_that_is_killed_before_it_notes_it_is_removed_and_not_that_of_the_others(world):
    made = large(world.folder / "header.safetensors", 40)
    local = world.folder / "local.safetensors"
    world.run("convert", made, local)
    plan, below = f"s3://{BUCKET}/header/plan", f"s3://{BUCKET}/header/"
    receipts = world.folder / "receipts"
    world.run("plan", made, f"{below}m.safetensors", "--output", plan, "--item-size", "5m")
    with between(world.endpoint) as (endpoint, came):
        killed = run_items(world, plan, receipts, "0..2", endpoint)
        assert came.wait(60), killed.communicate()
        assert len(world.uploads()) == 1 and world.keys("header/") == ["header/plan"]
        # Another process begins the output meanwhile.
        world.run("run-plan", plan, "--receipts", receipts)
        assert len(world.uploads()) == 2
        killed.kill()
        killed.communicate()
    text = world.run("clean", below, "--dry-run")
    assert text.count("would remove the unfinished upload") == 1 and "left the staging directory" in text, text
    world.run("clean", below)
    assert len(world.uploads()) == 1
    world.run("commit", plan, receipts)
    assert world.read("header/m.safetensors") == local.read_bytes()
    assert world.uploads() == [] and world.keys("header/") == ["header/m.safetensors", "header/plan"]


@check
def uploads_that_were_noted_are_used_although_the_answer_was_lost(world):
    made = large(world.folder / "lost.safetensors", 40)
    local = world.folder / "local.safetensors"
    world.run("convert", made, local)
    plan, receipts = f"s3://{BUCKET}/lost/plan", world.folder / "receipts"
    world.run("plan", made, f"s3://{BUCKET}/lost/m.safetensors", "--output", plan, "--item-size", "5m")
    with between(world.endpoint, loses_answer=True) as (endpoint, came):
        process = run_items(world, plan, receipts, "0..3", endpoint)
        error = process.communicate()[1]
        assert process.returncode == 0 and came.is_set(), error
    assert len(world.uploads()) == 1
    world.run("run-plan", plan, "--receipts", receipts)
    world.run("commit", plan, receipts)
    assert world.read("lost/m.safetensors") == local.read_bytes() and world.uploads() == []


@check
def a_process_that_is_killed_leaves_no_object_and_its_upload_can_be_removed(world):
    source = large(world.folder / "large.safetensors", 200)
    command = [world.program, "convert", str(source), f"s3://{BUCKET}/half/m.safetensors", "-j1", "--store-set",
               f"endpoint={world.endpoint}"]
    process = subprocess.Popen(command, env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not world.uploads():
        time.sleep(0.01)
    process.kill()
    assert process.wait() != 0 and world.keys("half/") == [] and len(world.uploads()) == 1
    world.run("clean", f"s3://{BUCKET}/half/m.safetensors", "--older-than", "0s")
    assert world.uploads() == []
    world.run("convert", source, f"s3://{BUCKET}/half/m.safetensors")
    assert world.keys("half/") == ["half/m.safetensors"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", default="target/debug/ckpt")
    arguments = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    failed = 0
    for function in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            world = World(arguments.ckpt, f"http://{host}:{port}", pathlib.Path(folder))
            if function is CHECKS[0]:
                world.s3.create_bucket(Bucket=BUCKET)
            try:
                function(world)
            except Exception:
                failed += 1
                print(f"FAILED {function.__name__}\n{traceback.format_exc()}", file=sys.stderr)
    server.stop()
    print(f"interop: {len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
