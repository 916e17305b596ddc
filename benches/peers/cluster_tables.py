"""Tables of conversions in many processes: what was measured, and what terabytes.py computes from it."""

import statistics

import terabytes
from terabytes import MACHINE, Figures
from words import lines, medians, size, time

# A number of workers should be at least so many times as fast as one, for each worker.
BOUND = 0.9


def sections(measured: dict) -> dict[str, str]:
    """By the names of their places in the pages."""
    made = {}
    if "scaling" in measured:
        made["scaling"] = scaling(measured)
    if "items" in measured:
        made |= {"terabytes": estimates(measured), "steps": steps(measured), "assumed": assumed()}
    return made


def charts(measured: dict) -> dict[str, str]:
    return {"terabytes.svg": terabytes.chart(Figures(measured["items"]))} if "items" in measured else {}


def scaling(measured: dict) -> str:
    """Speed with each number of workers, beside that with one."""
    header = ["from the store to", "workers", "seconds", "× one worker, for each", "until all was written", "commit, seconds", "bound",
              "met"]
    rows = []
    for target, found in measured["scaling"].items():
        middles = {int(count): statistics.median(seconds) for count, seconds in found["seconds"].items()}
        commits = {int(count): statistics.median(seconds) for count, seconds in found["commit"].items()}
        for count, seconds in sorted(middles.items()):
            share = middles[1] / seconds / count
            written = (middles[1] - commits[1]) / (seconds - commits[count]) / count
            bound = [f"≥ {BOUND:g}", "yes" if share >= BOUND else "**no**"] if count > 1 else ["", ""]
            what = {"directory": "a directory", "store": "the store"}[target]
            rows.append([f"{what}, {size(found['bytes'])}", str(count), f"{seconds:.1f}", f"{share:.2f}", f"{written:.2f}",
                         f"{commits[count]:.1f}", *bound])
    each = " and ".join(
        f"{found['each'] / 1e6:g} MB/s of the way to a {target} ({medians(len(found['seconds']['1'])).lower()})"
        for target, found in measured["scaling"].items()
    )
    here = measured["machine"]
    return (f"On {here['processor']} with {here['processors']} processors; each connection gets {each}. Load before the first run: "
            f"{here['load']:.2f}.\n\n{lines(header, rows)}")


def steps(measured: dict) -> str:
    """What was measured of each step."""
    items, figures = measured["items"], Figures(measured["items"])
    few, of = items["tensors"], lambda requests: f"{sum(requests.values()):.0f} requests"
    edge = f"{size(round(figures.edge / 2**20, 1) * 2**20)} fetched"
    rows = [
        ["plan", f"a tensor ({few['count']:,} of them)", f"{figures.plan_bytes:.0f} bytes of the plan, compressed; "
         f"{figures.plan_cpu * 1e6:.0f} µs of a processor"],
        ["run", "a process that begins", f"{of(figures.begin_requests)}, {time(figures.begin_seconds)} at a latency of "
         f"{items['latency'] * 1000:.0f} ms"],
        ["run", f"a group of {size(items['group'])}", of(figures.group_requests)],
        ["run", "1 GB", f"{figures.cpu_per_byte * 1e9:.2f} s of a processor"],
        ["run", "an item", f"a receipt of {figures.receipt_bytes:.0f} bytes"],
        ["commit", "a group", f"{of(figures.commit_requests)}, {edge}"],
        ["commit", "an item", f"{figures.item_trips:.2f} round trips in time"],
        ["commit", "a file", f"{figures.file_trips:.2f} round trips in time"],
        ["driver", "a task of Ray that does nothing", f"{1e3 / figures.task_rate:.1f} ms"],
    ]
    here = measured["machine"]
    return (f"Measured on {here['processor']} with {here['processors']} processors, {here['ckpt']}. Load before the first run: "
            f"{here['load']:.2f}.\n\n{lines(['step', '', ''], rows)}")


def estimates(measured: dict) -> str:
    """What conversions with several numbers of workers take."""
    figures = Figures(measured["items"])
    rows = []
    for workers, item, group in terabytes.SHOWN:
        found = terabytes.estimate(figures, workers, item, group)
        rows.append([f"{workers:,}", f"{size(item)}, {size(group)}", minutes(found.plan.seconds),
                     f"{minutes(found.run.seconds)}: {found.limit}", minutes(found.commit.seconds), minutes(found.seconds),
                     f"{found.requests / 1e6:.1f} million", f"${found.machine_dollars:.2f}", f"${found.request_dollars:.2f}"])
    items = terabytes.items_of(terabytes.ITEM)
    plan, receipts = figures.plan_bytes * terabytes.TENSORS, figures.receipt_bytes * items
    header = ["workers", "item, group", "plan", "run, and what limits it", "commit", "all", "requests", "machines", "requests cost"]
    chart = "![Time and cost of 10 TB by the number of workers, computed](terabytes.svg)"
    return (f"{chart}\n\n{lines(header, rows)}\n\nThe plan of {terabytes.TENSORS:,} tensors weighs {plan / 1e6:.1f} MB, and the "
            f"receipts of {items:,} items of {size(terabytes.ITEM)} weigh {receipts / 1e6:.0f} MB, in as many objects.")


def assumed() -> str:
    """What is neither measured nor computed."""
    rows = [
        ["the checkpoint", f"{terabytes.BYTES / 1e12:g} TB in {terabytes.TENSORS:,} tensors, written in files of {size(terabytes.SHARD)}"],
        ["a machine", f"{MACHINE.name}: {MACHINE.workers} workers, {MACHINE.rate / 1e6:.0f} MB/s in each direction, "
         f"${MACHINE.price} an hour (2025)"],
        ["S3", f"{terabytes.READS:,} reads and {terabytes.WRITES:,} writes a second of one prefix, {terabytes.LATENCY * 1000:.0f} ms "
         f"for a small request; ${terabytes.PRICES['PUT'] * 1000:g} for 1,000 writes, ${terabytes.PRICES['GET'] * 1000:g} for 1,000 "
         "reads (2025)"],
        ["`ckpt.ray.convert`", f"items of {size(terabytes.ITEM)} and groups of {size(terabytes.GROUP)}, its defaults, but for the "
         "table's last rows"],
    ]
    return lines(["of", ""], rows)


def minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
