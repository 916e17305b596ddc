"""How conversions in many processes scale, and what each of their steps costs.

    python benches/peers/cluster.py --ckpt target/release/ckpt [--scaling] [--items] [--readme] [--quick]

--scaling: `ckpt.ray.convert` with 1, 2 and 4 workers on one machine, from the object store of `object_server.py`, which gives
every connection so little bandwidth that neither processors nor the server are the limit. A worker has as many connections
whatever the number of workers; so twice the workers should be twice as fast. Needs Ray and the installed package.

--items: requests, processor time and bytes of each step of a conversion from object store to object store, by the command line:
of 20,000 small tensors, in few items, in many and in many files; and of 1 GiB in four groups. And how many tasks that do nothing
Ray's driver gets done each second. terabytes.py computes from these.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import harness
import object_server
import report
import safetensors_file
import terabytes
import words

HERE = pathlib.Path(__file__).parent
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
LATENCY = 0.02
WORKERS = (1, 2, 4)


@dataclass(frozen=True)
class Scaled:
    """A conversion of the scaling. Every group has enough requests for all connections of a worker, and there are two or more for
    each of the workers."""

    bytes: int
    group: int
    each: float  # bytes a second of a connection
    memory: str | None  # less of it makes smaller requests, so that smaller groups suffice

    def smaller(self) -> Scaled:
        return Scaled(self.bytes // 64, self.group // 64, self.each * 16, self.memory)


#: By what is written to. To the store it takes long: a part of 16 MiB has one connection.
SCALED = {"directory": Scaled(128 << 20, 8 << 20, 0.125e6, "32m"), "store": Scaled(1 << 30, 64 << 20, 1e6, None)}
#: Of the steps.
TENSORS, TENSOR = 20_000, 64
ITEM, ITEMS_EACH, GROUPS = 32 << 20, 8, 4
TASKS, TASKS_AT_ONCE = 2000, 256
#: Of Ray.
LOCAL = {"include_dashboard": False, "object_store_memory": 80 << 20, "_node_ip_address": "127.0.0.1", "log_to_driver": False}


class Store:
    """A running server."""

    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}/{path}") as answer:
            return answer.read()

    def counted(self) -> dict:
        """Requests of each method, and bytes that were sent, since the last call."""
        sent = sum(length for _, _, length in json.loads(self.get("-/sent")))
        return {"requests": json.loads(self.get("-/methods")), "read": sent}

    def sizes(self, prefix: str) -> list[int]:
        """Of objects."""
        return [int(size) for size in re.findall(r"<Size>(\d+)</Size>", self.get(f"b?list-type=2&prefix={prefix}").decode())]

    def ckpt(self, program: str, *arguments: object) -> dict:
        """What a command costs."""
        self.counted()
        command = [program, *map(str, arguments), "--store-set", f"endpoint={self.url}"]
        started = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, **KEYS}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        return {"seconds": round(seconds, 3), "cpu": round(used.ru_utime + used.ru_stime, 3), **self.counted()}

    def steps(self, program: str, name: str, *options: str) -> dict:
        """What the three steps cost for a source, in one process each."""
        plan, receipts = f"s3://b/{name}.gz", f"s3://b/receipts-{name}"
        planned = self.ckpt(program, "plan", "s3://b/in/small.safetensors", f"s3://b/{name}/m.safetensors", "-o", plan, *options)
        ran = self.ckpt(program, "run-plan", plan, "--receipts", receipts)
        own = self.sizes(f"receipts-{name}/")
        committed = self.ckpt(program, "commit", plan, receipts)
        return {"plan": planned | {"bytes": self.sizes(f"{name}.gz")[0]}, "run": ran | {"receipts": own},
                "commit": committed, "files": len(self.sizes(f"{name}/m"))}


@contextlib.contextmanager
def serving(sources: list[pathlib.Path], latency: float, each: float = float("inf")) -> Iterator[Store]:
    loaded = [word for source in sources for word in ("--load", f"b/in/{source.name}", source)]
    with object_server.serving("--latency", latency, "--each", each, *loaded) as port:
        yield Store(port)


def write(path: pathlib.Path, count: int, size: int) -> None:
    """A safetensors file of so many tensors with names as those of language models, in the order that `ckpt` would write."""
    names = sorted(f"model.layers.{number // 256}.mlp.experts.{number % 256}.down_proj.weight" for number in range(count))
    safetensors_file.write(path, dict.fromkeys(names, size))


def scaling(target: str, workers: list[int], folder: pathlib.Path, here: dict, quick: bool) -> dict:
    """A conversion with each number of workers, beside one; and without its commit, which one process does."""
    import ckpt.ray
    import ray

    os.environ.update(KEYS)
    job = SCALED[target].smaller() if quick else SCALED[target]
    source = folder / "source.safetensors"
    rows, one = [], (0.0, 0.0)
    write(source, 32, job.bytes // 32)
    ray.init("local", num_cpus=max(workers), **LOCAL)
    # Ray starts its workers, and they import the package.
    once = folder / "once"
    once.mkdir()
    ckpt.ray.convert(HERE.parents[1] / "examples/data/digits", once / "m.safetensors", item_size="1k", workers=max(workers))
    try:
        with serving([source], 0.005, job.each) as store:
            ckpt.set_store_options(endpoint=store.url)
            for count in workers:
                output = f"s3://b/out{count}/m.npz" if target == "store" else str(folder / f"m{count}.npz")
                written = [0.0]

                def tell(now: ckpt.Progress, written: list[float] = written) -> None:
                    if now.phase == "write":
                        written[0] = time.perf_counter()

                store.counted()
                started = time.perf_counter()
                ckpt.ray.convert("s3://b/in/source.safetensors", output, workers=count, item_size=job.bytes // 32,
                                 item_group_bytes=job.group, max_memory=job.memory, progress=tell)
                ended = time.perf_counter()
                all_of, commit = ended - started, ended - written[0]
                one = one if rows else (all_of, all_of - commit)
                rows.append({"workers": str(count), "time": f"{all_of:.1f} s", "× one worker, for each": f"{one[0] / all_of / count:.2f}",
                             "until all was written": f"{one[1] / (all_of - commit) / count:.2f}", "commit": f"{commit:.1f} s"})
                harness.log(f"  to a {target}, {count} workers: {rows[-1]}; {store.counted()}")
                made = store.get(f"b/out{count}/m.npz") if target == "store" else pathlib.Path(output).read_bytes()
                assert len(made) > job.bytes
    finally:
        ckpt.set_store_options()
        ray.shutdown()
    said = (f"One round of {words.size(job.bytes)} from the store to a {target}, {job.each / 1e6:g} MB/s for each connection, "
            f"{words.on(here)}.")
    return {"said": said, "rows": rows}


def steps(program: str, folder: pathlib.Path, quick: bool) -> dict:
    """What planning, running and committing cost."""
    count, item = (TENSORS // 100, ITEM // 64) if quick else (TENSORS, ITEM)
    small, large = folder / "small.safetensors", folder / "large.safetensors"
    write(small, count, TENSOR)
    write(large, GROUPS * ITEMS_EACH, item)
    with serving([small, large], LATENCY) as store:
        # In few items and one file; in many items; in many files.
        tensors = {"count": count, **store.steps(program, "few")}
        items = store.steps(program, "items", "--item-size", "1k")
        files = store.steps(program, "files", "--shard-size", "1k" if quick else "16k")
        store.ckpt(program, "plan", "s3://b/in/large.safetensors", "s3://b/large/m.safetensors", "--output", "s3://b/large.gz",
                   "--item-size", item)

        def run(group: int) -> dict:
            items = f"{group * ITEMS_EACH}..{(group + 1) * ITEMS_EACH}"
            return store.ckpt(program, "run-plan", "s3://b/large.gz", "--items", items, "--receipts", "s3://b/receipts-large", "-j1")

        groups = [run(number) for number in range(GROUPS)]
        # All have receipts: what is left is what it takes to begin.
        begun = [run(0) for _ in range(5)]
        receipts = store.sizes("receipts-large")
        committed = store.ckpt(program, "commit", "s3://b/large.gz", "s3://b/receipts-large")
    return {"tensors": tensors, "items": items, "files": files, "group": ITEMS_EACH * item, "groups": groups,
            "begun": begun, "receipts": receipts, "commit": committed}


def nothing(_job: object, _start: int, _stop: int) -> int:
    return 0


def tasks(quick: bool) -> dict:
    """How long the driver takes for tasks that do nothing."""
    import ckpt.ray
    import ray

    count = TASKS // 20 if quick else TASKS
    ray.init("local", num_cpus=2, **LOCAL)
    try:
        task = ray.remote(num_cpus=0.5)(nothing)
        ray.get([task.remote(None, 0, 1) for _ in range(8)])
        groups = [range(number, number + 1) for number in range(count)]
        work = ckpt.ray._Groups(ray, lambda group: task.remote(None, group.start, group.stop), groups, TASKS_AT_ONCE)
        started = time.perf_counter()
        work.run(lambda _: None)
        return {"count": count, "at_once": TASKS_AT_ONCE, "seconds": round(time.perf_counter() - started, 3)}
    finally:
        ray.shutdown()


def figures(items: dict, driver: dict) -> terabytes.Figures:
    """For each tensor, byte, group, item and file."""
    few, many, files, groups, begun = (items[key] for key in ("tensors", "items", "files", "groups", "begun"))
    count = few["count"]
    begin_cpu = statistics.median(each["cpu"] for each in begun)
    # Round trips of the commit, beyond those of another one.
    more = lambda other, each: max(other["commit"]["seconds"] - few["commit"]["seconds"], 0) / each / LATENCY  # noqa: E731
    return terabytes.Figures(
        latency=LATENCY, tensors=count, plan_bytes=few["plan"]["bytes"] / count, plan_cpu=few["plan"]["cpu"] / count,
        receipt_bytes=statistics.mean(items["receipts"]), group=items["group"],
        begin_seconds=statistics.median(each["seconds"] for each in begun),
        begin_requests=mean_requests([each["requests"] for each in begun]),
        cpu_per_byte=(statistics.mean(each["cpu"] for each in groups) - begin_cpu) / items["group"],
        group_requests=mean_requests([each["requests"] for each in groups]),
        item_trips=more(many, len(many["run"]["receipts"]) - len(few["run"]["receipts"])),
        file_trips=more(files, files["files"] - few["files"]),
        file_requests=terabytes.less(files["commit"]["requests"], few["commit"]["requests"], files["files"] - few["files"]),
        edge=items["commit"]["read"] / len(groups),
        commit_requests={method: count / len(groups) for method, count in items["commit"]["requests"].items()},
        task_rate=driver["count"] / driver["seconds"],
    )


def mean_requests(each: list[dict[str, int]]) -> dict[str, float]:
    methods = {method for one in each for method in one}
    return {method: statistics.mean(one.get(method, 0) for one in each) for method in sorted(methods)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--scaling", nargs="?", choices=SCALED, const="directory", help="to a directory, or to this target")
    parser.add_argument("--workers", nargs="*", type=int, default=WORKERS, help="with these numbers of workers")
    parser.add_argument("--items", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tries everything on small inputs")
    parser.add_argument("--scratch", type=pathlib.Path, help="where files are made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    arguments = parser.parse_args()
    results: dict[str, dict] = {}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = pathlib.Path(name)
        here = harness.machine(arguments.ckpt, folder)
        if arguments.scaling:
            results["scaling"] = scaling(arguments.scaling, list(arguments.workers), folder, here, arguments.quick)
        if arguments.items:
            found = figures(steps(arguments.ckpt, folder, arguments.quick), tasks(arguments.quick))
            said = f"Measured {words.on(here)}; {here['ckpt']}."
            results["terabytes"] = {"said": said, "figures": dataclasses.asdict(found)}
    report.finish(results, arguments.readme)


if __name__ == "__main__":
    main()
