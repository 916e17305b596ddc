"""What a conversion of 10 TB on many workers takes, computed from what small ones cost.

    python benches/peers/terabytes.py

prints the estimates from the figures in results.json (see cluster.py --items). Everything that is not measured is a constant
below. Needs nothing but Python.
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
from dataclasses import dataclass

from chart import Panel, Series, svg

# The conversion: its format changes, its bytes do not.
BYTES, TENSORS, SHARD = 10e12, 100_000, 5 * 2**30
WORKERS = (1, 4, 16, 64, 256, 1024)
# ckpt's own defaults: bytes of the largest item, of a group of `ckpt.ray.convert`, and of a part of an upload.
ITEM, GROUP, PART = 64 << 20, 1 << 30, 16 << 20
# Larger ones, for whom the commit takes too long.
LARGE_ITEM, LARGE_GROUP = 1 << 30, 4 << 30
SHOWN = ((16, ITEM, GROUP), (64, ITEM, GROUP), (256, ITEM, GROUP), (1024, ITEM, GROUP), (256, LARGE_ITEM, LARGE_GROUP),
         (1024, LARGE_ITEM, LARGE_GROUP))


@dataclass(frozen=True)
class Machine:
    """What a worker runs on."""

    name: str
    workers: int  # a processor each
    rate: float  # bytes a second in each direction, for as long as one likes
    price: float  # dollars an hour


# As Amazon publishes them for us-east-1, on demand, in 2025: aws.amazon.com/ec2/pricing/on-demand for the price,
# docs.aws.amazon.com/ec2/latest/instancetypes for the baseline bandwidth, 6.25 Gbit/s.
MACHINE = Machine("c6in.xlarge", 4, 6.25e9 / 8, 0.2268)
# aws.amazon.com/s3/pricing, S3 Standard in us-east-1, in 2025: dollars a request.
PRICES = {"GET": 0.0004 / 1000, "HEAD": 0.0004 / 1000, "PUT": 0.005 / 1000, "POST": 0.005 / 1000}
# docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html, in 2025: requests a second of one prefix at least,
# and how long a small request takes.
READS, WRITES, LATENCY = 5500, 3500, 0.1
READING = ("GET", "HEAD")


@dataclass(frozen=True)
class Step:
    """Seconds, and requests by method."""

    seconds: float
    requests: dict[str, float]

    def cost(self) -> float:
        return sum(PRICES.get(method, 0) * count for method, count in self.requests.items())


@dataclass(frozen=True)
class Estimate:
    workers: int
    plan: Step
    run: Step
    commit: Step
    #: Seconds that the run would take if nothing but this limited it.
    limits: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in (self.plan, self.run, self.commit))

    @property
    def limit(self) -> str:
        return max(self.limits, key=lambda name: self.limits[name])

    @property
    def requests(self) -> float:
        return sum(sum(step.requests.values()) for step in (self.plan, self.run, self.commit))

    @property
    def request_dollars(self) -> float:
        return sum(step.cost() for step in (self.plan, self.run, self.commit))

    @property
    def machine_dollars(self) -> float:
        """All machines, from the plan to the end of the commit."""
        return math.ceil(self.workers / MACHINE.workers) * self.seconds / 3600 * MACHINE.price


class Figures:
    """What was measured, for each tensor, byte, group, item and file."""

    def __init__(self, items: dict):
        few, many, files = items["tensors"], items["items"], items["files"]
        self.latency = items["latency"]
        count = few["count"]
        self.plan_bytes, self.plan_cpu = few["plan"]["bytes"] / count, few["plan"]["cpu"] / count
        self.receipt_bytes = statistics.mean(items["receipts"])
        self.group = items["group"]
        begun = items["begun"]
        self.begin_seconds = statistics.median(each["seconds"] for each in begun)
        self.begin_requests = mean_requests([each["requests"] for each in begun])
        begin_cpu = statistics.median(each["cpu"] for each in begun)
        #: Of a group's bytes, without what it takes to begin.
        self.cpu_per_byte = (statistics.mean(each["cpu"] for each in items["groups"]) - begin_cpu) / self.group
        self.group_requests = mean_requests([each["requests"] for each in items["groups"]])
        #: Round trips of the commit, beyond those of another one, for each item and file.
        more = lambda other, each: max(other["commit"]["seconds"] - few["commit"]["seconds"], 0) / each / self.latency  # noqa: E731
        self.item_trips = more(many, len(many["run"]["receipts"]) - len(few["run"]["receipts"]))
        self.file_trips = more(files, files["files"] - few["files"])
        self.file_requests = less(files["commit"]["requests"], few["commit"]["requests"], files["files"] - few["files"])
        #: Bytes that the commit fetches for each group: those of parts that no process wrote whole.
        self.edge = items["commit"]["read"] / len(items["groups"])
        self.commit_requests = {method: count / len(items["groups"]) for method, count in items["commit"]["requests"].items()}
        self.task_rate = items["tasks"]["count"] / items["tasks"]["seconds"]


def mean_requests(each: list[dict[str, int]]) -> dict[str, float]:
    methods = {method for one in each for method in one}
    return {method: statistics.mean(one.get(method, 0) for one in each) for method in sorted(methods)}


def less(some: dict[str, float], others: dict[str, float], each: float = 1) -> dict[str, float]:
    return {method: max(count - others.get(method, 0), 0) / each for method, count in some.items()}


def times(factor: float, *some: dict[str, float]) -> dict[str, float]:
    """The sum of requests, so many times."""
    methods = {method for one in some for method in one}
    return {method: factor * sum(one.get(method, 0) for one in some) for method in sorted(methods)}


def items_of(item: int) -> int:
    """How many items write the output: pieces of large tensors, or several small ones."""
    return max(TENSORS * math.ceil(BYTES / TENSORS / item) if item < BYTES / TENSORS else 0, math.ceil(BYTES / item))


def estimate(figures: Figures, workers: int, item: int = ITEM, group: int = GROUP) -> Estimate:
    """The conversion with so many workers."""
    groups, files, items = math.ceil(BYTES / group), math.ceil(BYTES / SHARD), items_of(item)
    machines = math.ceil(workers / MACHINE.workers)
    rate = min(MACHINE.rate * machines / workers, 1 / figures.cpu_per_byte)
    of_bytes = times(group / figures.group, less(figures.group_requests, figures.begin_requests))
    requests = times(groups, figures.begin_requests, of_bytes)
    reads = sum(requests.get(method, 0) for method in READING)
    limits = {
        "network": BYTES / MACHINE.rate / machines,
        "processors": BYTES * figures.cpu_per_byte / workers,
        "reads of one prefix": reads / READS,
        "writes of one prefix": (sum(requests.values()) - reads) / WRITES,
        "driver": groups / figures.task_rate,
    }
    # The last group begins when the others end, at worst.
    begin = figures.begin_seconds / figures.latency * LATENCY
    run = max(limits.values()) + groups / workers * begin + group / rate
    # The machine that plans opens the files of the source, 32 at a time, and later those of the output, one after the other.
    plan = figures.plan_cpu * TENSORS + files / 32 * LATENCY
    names = files * figures.file_trips * LATENCY
    receipts = items * figures.item_trips * LATENCY
    edges = (groups * figures.edge + files * PART) / MACHINE.rate
    of_commit = times(1, times(groups, figures.commit_requests), times(files, figures.file_requests))
    return Estimate(workers, Step(plan, {"GET": 2 * files}), Step(run, requests), Step(names + receipts + edges, of_commit), limits)


def chart(figures: Figures) -> str:
    found = [estimate(figures, workers) for workers in WORKERS]
    ticks = [(each.workers, str(each.workers)) for each in found]

    def line(value) -> Series:
        points = [(each.workers, value(each)) for each in found]
        return Series(points, points)

    one = found[0].run.seconds
    panels = [
        Panel("Time, minutes", "workers", ticks, {
            "if only workers counted": line(lambda each: one / each.workers / 60),
            "running the items": line(lambda each: each.run.seconds / 60),
            "plan and commit": line(lambda each: (each.plan.seconds + each.commit.seconds) / 60),
            "all": line(lambda each: each.seconds / 60),
        }),
        Panel("Speed, GB/s", "workers", ticks, {
            "if only workers counted": line(lambda each: BYTES / one * each.workers / 1e9),
            "running the items": line(lambda each: BYTES / each.run.seconds / 1e9),
            "all": line(lambda each: BYTES / each.seconds / 1e9),
        }),
        Panel("Cost, dollars", "workers", ticks, {
            "all": line(lambda each: each.machine_dollars + each.request_dollars),
        }),
    ]
    return svg("10 TB from object storage to object storage, computed", panels, "computed, not measured")


def main() -> None:
    results = json.loads(pathlib.Path(__file__).with_name("results.json").read_text())
    figures = Figures(results["cluster"]["items"])
    for workers in WORKERS:
        found = estimate(figures, workers)
        print(f"{workers} workers: {found.seconds / 60:.1f} min ({found.plan.seconds:.0f} s plan, {found.run.seconds:.0f} s run, "
              f"limited by {found.limit}, {found.commit.seconds:.0f} s commit), {found.requests / 1e6:.2f} million requests, "
              f"${found.machine_dollars + found.request_dollars:.2f}")


if __name__ == "__main__":
    main()
