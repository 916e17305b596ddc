#!/usr/bin/env python3
"""Converts to and from S3 as moto speaks it, and looks at the bucket with boto3.

    python tests/interop/object_storage.py --ckpt target/debug/ckpt     (packages: requirements-remote.txt)

Each check is a function below; the last line counts them: `interop: 13 passed, 0 failed`. The program needs the feature `remote`.
"""

import argparse
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
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


def run_items(world, plan, receipts, items, threads=1):
    """A process that runs items, in the background."""
    command = [world.program, "run-plan", plan, "--items", items, "--receipts", receipts, "-j", str(threads), "-q",
               "--store-set", f"endpoint={world.endpoint}"]
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
    assert "no unfinished uploads" in world.run("clean", below)
    world.run("clean", f"s3://{BUCKET}/", "--older-than", "0s")
    assert world.uploads() == []


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
