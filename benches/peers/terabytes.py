"""What a conversion of 10 TB on many workers takes, computed from what small ones cost.

    python benches/peers/terabytes.py

prints the estimates from the figures in results.json (see cluster.py --items). What is not measured is a constant below.
Needs nothing but Python.
"""

from __future__ import annotations

import json
import math
import pathlib
from dataclasses import dataclass

from words import RESULTS, size, table, time

# The conversion: its format changes, its bytes do not.
BYTES, TENSORS, SHARD = 10e12, 100_000, 5 * 2**30
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


@dataclass(frozen=True)
class Figures:
    """What cluster.py measured, for each tensor, byte, group, item and file."""

    latency: float
    tensors: int
    plan_bytes: float
    plan_cpu: float
    receipt_bytes: float
    group: int
    begin_seconds: float
    begin_requests: dict[str, float]
    #: Of a group's bytes, without what it takes to begin.
    cpu_per_byte: float
    group_requests: dict[str, float]
    #: Round trips of the commit, for each item and file.
    item_trips: float
    file_trips: float
    file_requests: dict[str, float]
    #: Bytes that the commit fetches for each group: those of parts that no process wrote whole.
    edge: float
    commit_requests: dict[str, float]
    task_rate: float


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


# The pages.


def blocks(measured: dict) -> dict[str, str]:
    """By the names of their places in the pages."""
    figures = Figures(**measured["figures"])
    return {"terabytes": estimates(figures), "assumed": assumed(), "steps": f"{measured['said']}\n\n{steps(figures)}"}


def estimates(figures: Figures) -> str:
    """What conversions with several numbers of workers take."""
    rows = []
    for workers, item, group in SHOWN:
        found = estimate(figures, workers, item, group)
        rows.append({"workers": f"{workers:,}", "item, group": f"{size(item)}, {size(group)}",
                     "plan": minutes(found.plan.seconds), "run, and what limits it": f"{minutes(found.run.seconds)}: {found.limit}",
                     "commit": minutes(found.commit.seconds), "all": minutes(found.seconds),
                     "requests": f"{found.requests / 1e6:.1f} million", "machines": f"${found.machine_dollars:.2f}",
                     "requests cost": f"${found.request_dollars:.2f}"})
    items = items_of(ITEM)
    plan, receipts = figures.plan_bytes * TENSORS, figures.receipt_bytes * items
    return (f"{table(rows)}\n\nThe plan of {TENSORS:,} tensors weighs {plan / 1e6:.1f} MB, and the receipts of {items:,} items "
            f"of {size(ITEM)} weigh {receipts / 1e6:.0f} MB, in as many objects.")


def assumed() -> str:
    """What is neither measured nor computed."""
    rows = {
        "the checkpoint": f"{BYTES / 1e12:g} TB in {TENSORS:,} tensors, written in files of {size(SHARD)}",
        "a machine": f"{MACHINE.name}: {MACHINE.workers} workers, {MACHINE.rate / 1e6:.0f} MB/s in each direction, "
                     f"${MACHINE.price} an hour (2025)",
        "S3": f"{READS:,} reads and {WRITES:,} writes a second of one prefix, {LATENCY * 1000:.0f} ms for a small request; "
              f"${PRICES['PUT'] * 1000:g} for 1,000 writes, ${PRICES['GET'] * 1000:g} for 1,000 reads (2025)",
        "`ckpt.ray.convert`": f"items of {size(ITEM)} and groups of {size(GROUP)}, its defaults, but for the table's "
                              "last rows",
    }
    return table([{"of": name, "assumption": text} for name, text in rows.items()])


def steps(figures: Figures) -> str:
    """What was measured of each step."""
    of = lambda requests: f"{sum(requests.values()):.0f} requests"  # noqa: E731
    edge = f"{size(round(figures.edge / 2**20, 1) * 2**20)} fetched"
    rows = [
        ["plan", f"a tensor ({figures.tensors:,} of them)", f"{figures.plan_bytes:.0f} bytes of the plan, compressed; "
         f"{figures.plan_cpu * 1e6:.0f} µs of a processor"],
        ["run", "a process that begins", f"{of(figures.begin_requests)}, {time(figures.begin_seconds)} at a latency of "
         f"{figures.latency * 1000:.0f} ms"],
        ["run", f"a group of {size(figures.group)}", of(figures.group_requests)],
        ["run", "1 GB", f"{figures.cpu_per_byte * 1e9:.2f} s of a processor"],
        ["run", "an item", f"a receipt of {figures.receipt_bytes:.0f} bytes"],
        ["commit", "a group", f"{of(figures.commit_requests)}, {edge}"],
        ["commit", "an item", f"{figures.item_trips:.2f} round trips in time"],
        ["commit", "a file", f"{figures.file_trips:.2f} round trips in time"],
        ["driver", "a task of Ray that does nothing", f"{1e3 / figures.task_rate:.1f} ms"],
    ]
    return table([dict(zip(("step", "of", "costs"), row)) for row in rows])


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def main() -> None:
    print(estimates(Figures(**json.loads(RESULTS.read_text())["terabytes"]["figures"])))


if __name__ == "__main__":
    main()
