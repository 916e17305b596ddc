"""Conversions on a Ray cluster of three nodes, all on this machine, whose workers and nodes are killed."""

from __future__ import annotations

import array
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from conftest import DIGITS, example, needs
from test_urls import Handler, Server, server  # noqa: F401

import ckpt
import ckpt.ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = needs("ray")
# What Ray itself warns of is not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.2"),
]

#: Ray replaces 127.0.0.1 by the host's own address, which may be out of reach.
NODE = {"node_ip_address": "127.0.0.2", "include_dashboard": False, "object_store_memory": 80 << 20}
#: A group of one item for each tensor of the model.
SMALL: dict[str, Any] = {"item_size": "256k", "item_group_bytes": 256 << 10}
#: What tasks run; a test puts something before it.
run_group = ckpt.ray._run_group


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **NODE})
        made.add_node(num_cpus=1, **NODE)
        made.add_node(num_cpus=2, **NODE)
        ray.init(address=made.address, _node_ip_address="127.0.0.2", log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint of 32 tensors, 8 MiB in all."""
    generator = random.Random(7)
    tensors = {f"layer.{number}": memoryview(generator.randbytes(256 << 10)) for number in range(32)}
    (tmp_path / "in").mkdir()
    ckpt.save(tensors, tmp_path / "in" / "model.safetensors", sync=False)
    return tmp_path / "in" / "model.safetensors"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def files(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def same_as_on_one_machine(source: Path, output: Path, **options: Any) -> bool:
    """Whether the directory of the output has the files of `ckpt.convert`, and nothing else."""
    alone = output.parent.with_name("alone")
    alone.mkdir()
    ckpt.convert(source, alone / output.name, **options)
    return files(output.parent) == files(alone)


def before(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Calls `act` with the first item of each group, on the worker, before the group runs. Local functions travel whole."""
    run = run_group

    def both(job: Any, start: int, stop: int) -> int:
        act(start)
        return run(job, start, stop)

    monkeypatch.setattr(ckpt.ray, "_run_group", both)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("digits.index", {}),
        ("digits.npz", {"threads": 2, "workers": 1}),
        ("digits.safetensors", {"options": {"shard_size": "8k"}, "map": str.lower}),
    ],
)
def test_the_bytes_are_those_of_one_machine(cluster: Any, out: Path, name: str, options: dict[str, Any]) -> None:
    summary = ckpt.ray.convert(DIGITS, out / name, item_size="4k", verify=True, **options)
    assert summary.verification is not None and all(Path(file).is_file() for file in summary.files)
    options.pop("workers", None)
    assert same_as_on_one_machine(DIGITS, out / name, **options)


def test_the_plan_of_a_merge_gives_the_bytes_of_one_process(cluster: Any, tmp_path: Path) -> None:
    generator = random.Random(7)

    def numbers(count: int) -> array.array[float]:
        return array.array("f", [generator.uniform(-1, 1) for _ in range(count)])

    def write(directory: str, file: str, config: str, stated: dict[str, Any], tensors: dict[str, Any]) -> None:
        (tmp_path / directory).mkdir()
        (tmp_path / directory / config).write_text(json.dumps(stated))
        ckpt.save(tensors, tmp_path / directory / file, sync=False)

    matrices = {f"layer.{number}.weight": memoryview(numbers(64 * 96)).cast("B").cast("f", (64, 96)) for number in range(6)}
    factors: dict[str, Any] = {}
    for name in matrices:
        module = f"base_model.model.{name.removesuffix('.weight')}"
        factors[f"{module}.lora_A.weight"] = memoryview(numbers(2 * 96)).cast("B").cast("f", (2, 96))
        factors[f"{module}.lora_B.weight"] = memoryview(numbers(64 * 2)).cast("B").cast("f", (64, 2))
    write("base", "model.safetensors", "config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}, matrices)
    write("adapter", "adapter_model.safetensors", "adapter_config.json", {"peft_type": "LORA", "r": 2, "lora_alpha": 4}, factors)

    def merge(out: str, *more: str) -> None:
        command = [sys.executable, "-m", "ckpt", "merge", "base", "--lora", "adapter", f"{out}/", "--item-size", "16k", "-q", *more]
        subprocess.run(command, cwd=tmp_path, check=True)

    merge("alone")
    merge("cluster", "--plan", "plan.gz")
    plan = ckpt.load_plan(tmp_path / "plan.gz")
    assert len(plan.items) > 4 and plan.output == str(tmp_path / "cluster")
    ckpt.ray.run(tmp_path / "plan.gz", workers=2)
    assert files(tmp_path / "cluster") == files(tmp_path / "alone")
    assert not list(tmp_path.glob(".*"))


def test_the_example_of_the_guide_converts(cluster: Any, model: Path) -> None:
    (model.parent / "out").mkdir()
    text = example("Ray", model.parent).replace("/model.npz", "/out/model.npz")
    exec(compile(text, "cluster.md", "exec"), {})
    assert same_as_on_one_machine(model, model.parent / "out" / "model.npz")


def test_progress_is_that_of_bytes_and_phases(cluster: Any, model: Path, out: Path) -> None:
    seen: list[ckpt.Progress] = []
    ckpt.ray.convert(model, out / "model.npz", item_size="256k", progress=seen.append)
    assert seen[0].bytes == 0 and seen[-1] == (8 << 20, 8 << 20, "commit")
    assert len({each.bytes for each in seen}) > 4 and seen == sorted(seen, key=lambda each: each.bytes)


def test_workers_that_are_killed_are_replaced(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pids, killed = tmp_path / "pids", []
    pids.mkdir()

    def slowly(_start: int) -> None:
        (pids / str(os.getpid())).touch()
        time.sleep(0.15)

    def kill() -> None:
        while len(killed) < 3 and not over.wait(0.3):
            pid = random.choice(os.listdir(pids) or ["0"])
            (pids / pid).unlink(missing_ok=True)
            if pid != "0" and b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
                killed.append(pid)

    before(monkeypatch, slowly)
    over = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        ckpt.ray.convert(model, out / "model.npz", **SMALL, retries=5)
    finally:
        over.set()
        killer.join()
    assert killed and same_as_on_one_machine(model, out / "model.npz")


DRIVER = """
import sys, time, ray, ckpt.ray
run = ckpt.ray._run_group

def main():
    def slowly(job, start, stop):
        time.sleep(0.3)
        return run(job, start, stop)
    ckpt.ray._run_group = slowly
    ray.init(address=sys.argv[1], _node_ip_address="127.0.0.2", log_to_driver=False)
    tell = lambda now: print(now.bytes, flush=True)
    ckpt.ray.convert(sys.argv[2], sys.argv[3], item_size="256k", item_group_bytes=256 << 10, progress=tell)

main()
"""


def test_a_task_that_the_system_refuses_something_is_repeated_and_one_that_is_always_lost_is_an_error(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_start: int) -> None:
        if not (tmp_path / "refused").exists():
            (tmp_path / "refused").touch()
            raise OSError(5, "no such luck")
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        before(patched, fail)
        with pytest.raises(ckpt.InputOutputError, match="a task was lost") as caught:
            ckpt.ray.convert(model, out / "model.npz", retries=1)
    assert caught.value.__notes__ and "retries=" in (caught.value.help or "")
    (tmp_path / "refused").unlink()
    before(monkeypatch, lambda start: fail(start) if not (tmp_path / "refused").exists() else None)
    ckpt.ray.convert(model, out / "model.npz", retries=1)
    assert (tmp_path / "refused").exists() and same_as_on_one_machine(model, out / "model.npz")


def test_workers_read_the_source_at_its_url_with_the_drivers_options(
    cluster: Any, model: Path, out: Path, server: Server
) -> None:
    bucket = server.root / "bucket"
    bucket.mkdir()
    (bucket / "model.safetensors").write_bytes(model.read_bytes())
    try:
        ckpt.set_store_options(endpoint=server.url, region="us-east-1", skip_signature=True, allow_http=True)
        ckpt.ray.convert("s3://bucket/model.safetensors", out / "model.npz", **SMALL)
    finally:
        ckpt.set_store_options()
    assert same_as_on_one_machine(model, out / "model.npz")


class Bucket(Handler):
    """What S3 answers about small objects: each is a file below the server's directory."""

    lock = threading.Lock()

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        self.path = unquote(self.path)
        if "list-type" not in asked:
            super().do_GET()
            return
        root, prefix = self.server.root / "bucket", asked.get("prefix", [""])[0]
        keys = [key for key in files(root) if key.startswith(prefix)]
        if "delimiter" in asked:
            keys = [key for key in keys if "/" not in key[len(prefix) :]]
        entry = "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{}</Size></Contents>"
        entries = "".join(entry.format(key, (root / key).stat().st_size) for key in keys)
        self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.server.root / unquote(self.path).lstrip("/")
        with self.lock:
            if self.headers.get("If-None-Match") == "*" and path.exists():
                self.answer(412, "<Error><Code>PreconditionFailed</Code></Error>")
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.answer(200, "")

    def do_POST(self) -> None:
        assert self.path.endswith("?delete"), self.path
        keys = re.findall("<Key>(.*?)</Key>", self.rfile.read(int(self.headers["Content-Length"])).decode())
        paths = [self.server.root / "bucket" / key for key in keys]
        for path in (path for path in paths if path.is_file()):
            path.unlink()
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def bucket(server: Server, model: Path) -> Iterator[Path]:
    """The directory of `s3://bucket`, which has a model."""
    server.RequestHandlerClass = Bucket
    (server.root / "bucket").mkdir()
    (server.root / "bucket" / "model.safetensors").write_bytes(model.read_bytes())
    try:
        ckpt.set_store_options(endpoint=server.url, region="us-east-1", skip_signature=True, allow_http=True)
        yield server.root / "bucket"
    finally:
        ckpt.set_store_options()


@pytest.mark.parametrize("staging", [None, "s3://bucket/work/"])
def test_nothing_is_left_at_urls(cluster: Any, model: Path, out: Path, bucket: Path, staging: str | None) -> None:
    source, output = "s3://bucket/model.safetensors", "s3://bucket/out/model.npz"
    summary = ckpt.ray.convert(source, output, staging=staging, verify=True, **SMALL)
    assert summary.files == [output] and summary.verification is not None and summary.verification["after_commit"]
    ckpt.convert(model, out / "model.npz")
    assert files(bucket) == {"model.safetensors": model.read_bytes(), "out/model.npz": (out / "model.npz").read_bytes()}


@pytest.mark.parametrize("at", ["s3://bucket/out/model.npz", "out/model.npz"])
def test_what_two_conversions_left_is_discarded(
    cluster: Any, model: Path, out: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def fail(start: int) -> None:
        if start == 20:
            raise ckpt.UnsupportedError("not today")

    output = at if "://" in at else str(out.parent / at)
    place, source = (bucket / "out", "s3://bucket/model.safetensors") if "://" in at else (out, str(model))
    before(monkeypatch, fail)
    with pytest.raises(ckpt.UnsupportedError):
        ckpt.ray.convert(source, output, **SMALL)
    # On a disk, the second one takes the place of the first; at a URL, it is refused.
    with pytest.raises((ckpt.UnsupportedError, ckpt.UsageError)):
        ckpt.ray.convert(source, output, exclude="layer.0", **SMALL)
    left = files(place)
    assert len([name for name in left if "/plan-" in name]) == 2 and len(left) > 4
    ckpt.ray.discard(output)
    assert files(place) == {} and (out.parent / "in" / "model.safetensors").is_file()
    ckpt.ray.discard(output)
    assert not place.exists() or "://" in at or os.listdir(place) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_killed_is_followed_by_one_that_goes_on(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: signal.Signals
) -> None:
    output = out / "model.npz"
    command = [sys.executable, "-c", DRIVER, cluster.address, model, output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None and driver.stderr is not None
        for line in driver.stdout:
            if int(line) >= 1 << 20:
                break
        driver.send_signal(how)
        errors = driver.stderr.read()
    assert driver.returncode != 0 and ("what was done is kept" in errors) == (how == signal.SIGINT)
    done = ckpt.ray._Staging(str(output), None).receipts
    assert not output.exists() and len(os.listdir(done)) >= 4
    groups = tmp_path / "groups"
    groups.mkdir()
    before(monkeypatch, lambda start: (groups / str(start)).touch())
    seen: list[ckpt.Progress] = []
    ckpt.ray.convert(model, output, **SMALL, progress=seen.append)
    assert seen[0].bytes >= 1 << 20 and len(os.listdir(groups)) <= 28
    assert same_as_on_one_machine(model, output)


class Interrupted:
    """Ray, of which the first wait is interrupted; tasks end by themselves in the next one, but for those that hang."""

    def __init__(self, hangs: list[str]) -> None:
        self.hangs = hangs
        self.events: list[Any] = []

    def wait(self, tasks: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        self.events.append(("wait", tasks, timeout))
        if len(self.events) == 1:
            raise KeyboardInterrupt
        return [task for task in tasks if task not in self.hangs], [task for task in tasks if task in self.hangs]

    def cancel(self, task: str, force: bool) -> None:
        self.events.append(("cancel", task, force))
        if force:
            self.hangs.remove(task)


def test_after_an_error_tasks_may_end_before_they_are_canceled() -> None:
    def events(*hangs: str) -> list[Any]:
        interrupted = Interrupted(list(hangs))
        groups = ckpt.ray._Groups(interrupted, lambda group: str(group.start), [range(0, 1), range(1, 2)], 2)
        with pytest.raises(KeyboardInterrupt):
            groups.run(lambda _group: None)
        assert groups.running == {}
        return interrupted.events

    waits = [("wait", ["0", "1"], 0.5), ("wait", ["0", "1"], 10.0)]
    assert events() == waits
    look, wait = ("wait", ["1"], 0), ("wait", ["1"], 10.0)
    assert events("1") == [*waits, look, ("cancel", "1", False), wait, look, ("cancel", "1", True), wait]


def test_an_error_is_ckpts_own_and_leaves_what_was_done(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(start: int) -> None:
        time.sleep(0.1)
        if start == 20 and not (tmp_path / "repaired").exists():
            raise ckpt.UnsupportedError("not today")

    before(monkeypatch, fail)
    for _ in range(2):
        with pytest.raises(ckpt.UnsupportedError, match="not today") as caught:
            ckpt.ray.convert(model, out / "model.npz", **SMALL)
        assert "discard('" in caught.value.__notes__[0] and not (out / "model.npz").exists()
    (tmp_path / "repaired").touch()
    seen: list[ckpt.Progress] = []
    ckpt.ray.convert(model, out / "model.npz", **SMALL, progress=seen.append)
    assert seen[0].bytes >= 4 << 20 and same_as_on_one_machine(model, out / "model.npz")


def test_another_conversion_to_the_output_begins_anew(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(start: int) -> None:
        if start == 20:
            raise ckpt.UnsupportedError("not today")

    with monkeypatch.context() as patched:
        before(patched, fail)
        with pytest.raises(ckpt.UnsupportedError):
            ckpt.ray.convert(model, out / "model.npz", **SMALL)
    ckpt.save({"w": memoryview(bytes(1 << 20))}, model, overwrite=True)
    seen: list[ckpt.Progress] = []
    ckpt.ray.convert(model, out / "model.npz", progress=seen.append)
    assert seen[0].bytes == 0 and same_as_on_one_machine(model, out / "model.npz")


def test_a_corrupt_source_is_a_corrupt_error_and_its_remains_are_discarded(cluster: Any, out: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(DIGITS, tmp_path / "digits")
    data = broken / "ckpt-1.data-00000-of-00001"
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    shared = tmp_path / "shared"
    with pytest.raises(ckpt.CorruptError, match="checksum") as caught:
        ckpt.ray.convert(broken, out / "digits.npz", staging=shared)
    assert caught.value.tensor is not None and "staging=" in caught.value.__notes__[0]
    assert files(out) and files(shared)
    data.write_bytes(b"another source by now")
    ckpt.ray.discard(out / "digits.npz", staging=shared)
    assert not files(out) and not files(shared)


def test_a_straggler_is_overtaken(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hang_once(start: int) -> None:
        if start == 4:
            try:
                (tmp_path / "hung").mkdir()
            except FileExistsError:
                return
            time.sleep(120)

    before(monkeypatch, hang_once)
    monkeypatch.setattr(ckpt.ray, "_PATIENCE", 1.0)
    monkeypatch.setattr(ckpt.ray, "_ENDING", 1.0)
    started = time.monotonic()
    ckpt.ray.convert(model, out / "model.npz", **SMALL)
    assert (tmp_path / "hung").exists() and time.monotonic() - started < 60
    assert same_as_on_one_machine(model, out / "model.npz")


def test_an_output_that_exists_is_refused_before_anything_is_written(cluster: Any, model: Path, out: Path) -> None:
    (out / "model.npz").write_bytes(b"")
    with pytest.raises(ckpt.UsageError, match="overwrite=True"):
        ckpt.ray.convert(model, out / "model.npz")
    with pytest.raises(TypeError, match="resume"):
        ckpt.ray.convert(model, out / "model.npz", resume=True)
    assert files(out) == {"model.npz": b""}
    ckpt.ray.convert(model, out / "model.npz", overwrite=True)
    assert same_as_on_one_machine(model, out / "model.npz")


def test_a_node_that_is_lost_is_done_without(
    cluster: Any, model: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    started.mkdir()

    def slowly(start: int) -> None:
        (started / f"{start}-{os.getpid()}").touch()
        time.sleep(0.4)

    before(monkeypatch, slowly)
    lost = cluster.list_all_nodes()[-1]

    def remove() -> None:
        while len(os.listdir(started)) < 8:
            time.sleep(0.05)
        cluster.remove_node(lost, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    ckpt.ray.convert(model, out / "model.npz", **SMALL)
    remover.join()
    assert same_as_on_one_machine(model, out / "model.npz")
