#!/usr/bin/env python3
"""Writes measured figures into the pages that show them, so that none is typed by hand.

    python benches/peers/report.py [--check]

From `results.json` beside this script (see bench.py --readme) into the README's line of figures, the guide's page
docs/src/performance.md and its charts. --check: fails where a page shows anything else. Needs nothing but Python.
"""

import json
import math
import pathlib
import re
import statistics
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import cluster_tables
from chart import Panel, Series, svg
from words import GIB, MIB, lines, median, medians, memory, size, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(__file__).with_name("results.json")
README, PAGE, TERABYTES = ROOT / "README.md", ROOT / "docs" / "src" / "performance.md", ROOT / "docs" / "src" / "terabytes.md"
# What the Python package may take beside the arrays that are asked for, in MiB.
BEYOND = 24
# In place of figures that nobody took yet.
UNMEASURED = "*Not measured yet: see below for how.*"


@dataclass(frozen=True)
class Kind:
    """What grows."""

    name: str
    axis: str
    by: str
    unit: str  # of the slope
    per: float  # seconds for each x, in that unit
    show: Callable[[float], str]


SIZE = Kind("size", "size of the checkpoint, in 32 tensors", "size of the checkpoint", "s per GiB", GIB, lambda x: size(x))
TENSORS = Kind("tensors", "tensors of 1 KiB", "number of tensors", "µs per tensor", 1e6, lambda x: f"{x:,}")


def main() -> None:
    rewrite(check=sys.argv[1:] == ["--check"])


def save(path: pathlib.Path, results: dict, apart: bool = False) -> None:
    """What the file has of other kinds of measurement stays. Of tables that were measured `apart` from the others, each
    takes the place of the one with its id."""
    known = json.loads(path.read_text()) if path.exists() else {}
    if apart and "jobs" in known and "jobs" in results:
        results = results | {"jobs": merged(known["jobs"], results["jobs"])}
    text = json.dumps(known | results, indent=1)
    # One line for each list of numbers.
    text = re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n")


def merged(known: dict, found: dict) -> dict:
    """Each table that was measured apart says on which machine."""
    if known["gib"] != found["gib"]:
        sys.exit(f"tables of {found['gib']:g} GiB do not go with those of {known['gib']:g} GiB")
    new = {each["id"]: each | {"machine": found["machine"]} for each in found["tables"]}
    kept = [new.pop(each["id"], each) for each in known["tables"]]
    return known | {"tables": [*kept, *new.values()]}


def rewrite(check: bool = False) -> None:
    if not RESULTS.exists():
        print(f"no figures are kept: {RESULTS.name} is made by bench.py --readme")
        return
    results = json.loads(RESULTS.read_text())
    blocks = {"machine": described(results), "headline": headline(results), "summary": summary(results),
              **sections(results)}
    written = {path: filled(path, blocks) for path in (README, PAGE, TERABYTES)}
    written |= {PAGE.with_name(name): text for name, text in charts(results).items()}
    for path, text in written.items():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} does not show what {RESULTS} has: run benches/peers/report.py")


def filled(path: pathlib.Path, blocks: dict[str, str]) -> str:
    """The page with every `<!-- figures: NAME -->` … `<!-- /figures -->` written anew."""
    place = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
    text, seen = place.subn(lambda found: f"{found[1]}{blocks.get(found[2], UNMEASURED)}\n{found[3]}", path.read_text())
    if seen == 0:
        sys.exit(f"{path} has no place for figures")
    return text


def sections(results: dict) -> dict[str, str]:
    made = {}
    if "jobs" in results:
        made["jobs"] = jobs(results["jobs"])
    if "growth" in results:
        made["size"] = grown(results["growth"]["size"], SIZE)
        made["tensors"] = grown(results["growth"]["tensors"], TENSORS)
    if "huge" in results:
        made["huge"] = huge(results["huge"]["rows"])
    if "forward" in results:
        made["forward"] = forward(results["forward"])
    if "python" in results:
        made["python"] = python(results["python"])
    if "remote" in results:
        made["remote"] = remote(results["remote"])
    if "cloning" in results:
        made["cloning"] = cloning(results["cloning"])
    if "cluster" in results:
        made |= cluster_tables.sections(results["cluster"])
    return made


def finish(results: dict, readme: bool) -> None:
    """Prints everything; with `readme`, puts it into the repository, and into its pages."""
    print(text(results))
    if readme:
        save(RESULTS, results)
        rewrite()


def text(results: dict) -> str:
    """Everything, for a terminal."""
    return "\n\n".join([described(results), *sections(results).values()])


def described(results: dict) -> str:
    here = next(iter(results.values()))["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
    vectors = f" ({', '.join(here['vectors'])})" if here["vectors"] else ""
    python = f"Python {here['python']}" + (f" with {packages}" if packages else "")
    return (f"{here['processor']}, {here['processors']} processors{vectors}, {here['memory_gib']:.0f} GiB of memory, "
            f"{here['filesystem']}, Linux {here['kernel']}; {here['ckpt']}, {here['cp']}, {python}. "
            f"Load before the first run: {here['load']:.2f}.")


# Tables of jobs.


def jobs(measured: dict) -> str:
    """The tables that were measured in one go, and then those measured apart, by machine and load."""
    groups: dict[str, list[str]] = {}
    for each in measured["tables"]:
        apart = f"*Measured apart from the tables above:* {described({'': each})}" if "machine" in each else ""
        groups.setdefault(apart, []).append(table(each))
    return "\n\n".join("\n\n".join(filter(None, [apart, *groups[apart]])) for apart in sorted(groups))


def ratios(row: dict, other: dict) -> list[float]:
    """Wall time as a multiple of another program's, round by round."""
    return [own / its for own, its in zip(row["wall"], other["wall"])]


def table(measured: dict) -> str:
    rows = measured["rows"]
    by_name = {row["name"]: row for row in rows}
    base = by_name.get(measured.get("baseline"))
    beside = any("beside" in row for row in rows)
    unit = measured.get("unit", "cp")
    header = ["program", "wall", *([f"× {unit} (least–most)"] if base else []), *(["× ckpt"] if beside else []), "CPU",
              "peak RSS, MiB", "bound", "met"]
    cells = []
    for row in rows:
        cell = [row["name"], time(median(row, "wall"))]
        if base:
            found = ratios(row, base)
            spread = "" if row is base else f" ({min(found):.2f}–{max(found):.2f})"
            cell.append(f"{statistics.median(found):.2f}{spread}")
        if beside:
            cell.append(f"{slower(row, by_name):.1f}" if "beside" in row else "")
        cell += [time(median(row, "cpu")), memory(row), *judged(row, base, by_name, unit)]
        cells.append(cell)
    return f"**{measured['title']}**: {medians(measured['rounds']).lower()}\n\n{lines(header, cells)}"


def slower(row: dict, by_name: dict) -> float:
    return statistics.median(ratios(row, by_name[row["beside"]]))


def judged(row: dict, base: dict | None, by_name: dict, unit: str) -> list[str]:
    """The bound, and whether it is met; `unit` is what the base is called."""
    bound, said, met = row["bound"], [], []
    if "ratio" in bound and base:
        said.append(f"≤ {bound['ratio']:g} × {unit}")
        met.append(statistics.median(ratios(row, base)) <= bound["ratio"])
    if "rate" in bound:
        rate = row["written"] / 1e9 / row["threads"] / median(row, "wall")
        said.append(f"≥ {bound['rate']:g} GB/s a thread ({rate:.2f})")
        met.append(rate >= bound["rate"])
    if "wall" in bound:
        said.append(f"≤ {bound['wall'] * 1000:g} ms")
        met.append(median(row, "wall") <= bound["wall"])
    if "rss" in bound:
        said.append(f"≤ {bound['rss']:g} MiB")
        met.append(max(row["rss"]) <= bound["rss"])
    if "slower" in bound:
        said.append(f"≥ {bound['slower']:g} × ckpt")
        met.append(slower(row, by_name) >= bound["slower"])
    verdicts = {True: "yes", False: "**no**"}
    return [", ".join(said), ", ".join(verdicts[each] for each in dict.fromkeys(met)) if said else ""]


# The tables of large conversions, those with Python beside them, and those of many small tensors.
KEYS = ("tf2", "safetensors", "torch", "distributed-2", "distributed-8", "gguf", "onnx", "networks", "transposed", "casts",
        "cold")
BESIDE = ("python", "torch-python", "gguf-decoded", "onnx")
SMALL, SMALL_BESIDE = ("small", "small-torch"), ("gguf-encoded", "small-python", "small-torch-python")
INSTANT = ("instant", "instant-torch")


def headline(results: dict) -> str:
    """The README's figures: the median and the range of all large conversions from a warm cache, and Python's."""
    if "jobs" not in results:
        return ""
    jobs = results["jobs"]
    tables = {each["id"]: each for each in jobs["tables"]}
    warm = [key for key in dict.fromkeys((*KEYS, *BESIDE)) if key != "cold" and key in tables]
    rows = [(row, ratios(row, tables[key]["rows"][0])) for key in warm for row in tables[key]["rows"][1:]
            if row.get("threads") == 2]
    middles, rounds = [statistics.median(found) for _, found in rows], [one for _, found in rows for one in found]
    by_job: dict[str, list[float]] = {}
    for (row, _), middle in zip(rows, middles, strict=True):
        by_job.setdefault(row["job"], []).append(middle)
    typical = statistics.median(statistics.median(each) for each in by_job.values())
    peak = max(max(row["rss"]) for row, _ in rows)
    python = [slower(row, by_name) for _, by_name in beside(tables, BESIDE) for row in by_name.values() if "beside" in row]
    here = jobs["machine"]
    counts = " or ".join(", ".join(map(str, sorted({tables[key]["rounds"] for key in warm}))).rsplit(", ", 1))
    slowness = (f" Python programs for {len(python)} of these conversions take {min(python):.1f} to {max(python):.0f} times as "
                "long as `ckpt`." if python else "")
    line = (f"About as fast as `cp`: a conversion of {size(jobs['gib'] * GIB)} takes {typical:.2f} times as long with 2 threads (the "
            f"median of {len(by_job)} conversions; {min(middles):.2f} to {max(middles):.2f}), in at most {peak:.0f} MiB of memory."
            f"{slowness} Measured on {here['processor']} with {here['processors']} processors, in {counts} rounds; single rounds take "
            f"{min(rounds):.2f} to {max(rounds):.1f} times as long as `cp`.")
    return textwrap.fill(line, 125, break_on_hyphens=False)


def summary(results: dict) -> str:
    """What the guide's page begins with: one line for each job, and beside Python."""
    if "jobs" not in results:
        return ""
    jobs = results["jobs"]
    tables = {each["id"]: each for each in jobs["tables"]}
    threaded: dict[str, dict[int, str]] = {}
    peaks: dict[str, float] = {}
    for measured in (tables[key] for key in KEYS if key in tables):
        base, *own = measured["rows"]
        for row in (row for row in own if "job" in row):
            threaded.setdefault(row["job"], {})[row["threads"]] = f"{statistics.median(ratios(row, base)):.2f}"
            peaks[row["job"]] = max(peaks.get(row["job"], 0), *row["rss"])
    rounds = tables["tf2"]["rounds"]
    header = [f"{size(jobs['gib'] * GIB)} of f32 in 32 tensors", "1 thread, × `cp`", "2 threads, × `cp`", "peak RSS, MiB"]
    rows = [[name, *(found[count] for count in (1, 2)), f"{peaks[name]:.0f}"] for name, found in threaded.items()]
    here = jobs["machine"]
    parts = [
        f"{medians(rounds)} on {here['processor']} with {here['processors']} processors; page cache warm but for "
        "the row that says cold, every checksum verified or computed. Each figure is a multiple of what `cp` takes for the "
        "same bytes in the same round (cold: `cp` and `sync`).",
        lines(header, rows),
    ]
    if any(beside(tables, BESIDE)):
        parts.append(beside_python(tables))
    return "\n\n".join([*parts, instants(tables)])


def beside(tables: dict[str, dict], keys: tuple[str, ...]) -> list[tuple[dict, dict[str, dict]]]:
    """The tables with these keys that have Python beside them, and the rows of each by name."""
    found = (tables[key] for key in keys if key in tables)
    with_python = (each for each in found if any("beside" in row for row in each["rows"]))
    return [(each, {row["name"]: row for row in each["rows"]}) for each in with_python]


def small_tensors(measured: dict) -> str:
    """Of a table of many small tensors: how many, after a comma."""
    found = re.search(r"[\d,]+ tensors of 1 KiB", measured["title"])
    return f", {found[0]}" if found else ""


def beside_python(tables: dict[str, dict]) -> str:
    rows = []
    for measured, by_name in beside(tables, (*BESIDE, *SMALL_BESIDE)):
        what = small_tensors(measured)
        for row in by_name.values():
            if "beside" in row:
                own = by_name[row["beside"]]
                rows.append([own["job"] + what, row["name"], time(median(row, "wall")), time(median(own, "wall")),
                             f"{slower(row, by_name):.1f}", memory(row), memory(own)])
    return lines(["beside Python", "", "Python", "`ckpt`, 2 threads", "times as fast", "peak RSS, MiB: Python",
                  "`ckpt`"], rows)


def instants(tables: dict[str, dict]) -> str:
    said = [f"{row['job']}{small_tensors(tables[key])}: {time(median(row, 'wall'))}"
            for key in SMALL if key in tables for row in tables[key]["rows"] if row.get("threads") == 2]
    said += [f"`{row['name'].split(' of ')[0]}`{''.join(row['name'].partition(' of ')[1:])}: {time(median(row, 'wall'))}"
             for key in INSTANT if key in tables for row in tables[key]["rows"] if row["name"].startswith("ckpt")]
    if "experts" in tables:
        base, *rows = tables["experts"]["rows"]
        said += [f"{row['job']}: {statistics.median(ratios(row, base)):.2f} times as long as {base['job']}" for row in rows]
    return "; ".join(said) + "."


# Growth.


def series(points: list[dict], key: str) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        value = max(point[key]) if key == "rss" else median(point, key)
        found.setdefault(point["name"], []).append((point["x"], value))
    return found


def grown(points: list[dict], kind: Kind) -> str:
    """The chart, the lines through its points, and the points."""
    walls, cpus, peaks = (series(points, key) for key in ("wall", "cpu", "rss"))
    chart = f"![Wall time, processor time and peak memory by the {kind.by}](growth-{kind.name}.svg)"
    fits = []
    for name in walls:
        wall, cpu = fit(walls[name]), fit(cpus[name])
        fits.append([name, f"{wall.slope * kind.per:.3g}", f"{wall.base * 1000:.1f}", f"{wall.off:.0%}",
                     f"{wall.exponent:.2f}", f"{cpu.slope * kind.per:.3g}", f"{cpu.exponent:.2f}", rise(peaks[name], kind)])
    fitted = lines(["fitted line", f"wall, {kind.unit}", "at 0, ms", "farthest point", "exponent", f"CPU, {kind.unit}",
                    "exponent", "peak RSS"], fits)
    header = [kind.name, *(f"{name}: wall, CPU, MiB" for name in walls)]
    rows = []
    for x in dict.fromkeys(point["x"] for point in points):
        cells = []
        for name in walls:
            wall, cpu, peak = (dict(each[name])[x] for each in (walls, cpus, peaks))
            cells.append(f"{time(wall)}, {time(cpu)}, {peak:.1f}")
        rows.append([kind.show(x), *cells])
    return f"{chart}\n\n{slopes(walls, kind)}\n\n{fitted}\n\n{lines(header, rows)}"


def slopes(walls: dict[str, list[tuple[float, float]]], kind: Kind) -> str:
    """In words, what the lines say."""
    said = []
    for name, points in walls.items():
        line = fit(points)
        said.append(f"{name}: {line.slope * kind.per:.3g} {kind.unit} (exponent {line.exponent:.2f})")
    first, last = (points[end][0] for points in list(walls.values())[:1] for end in (0, -1))
    return f"From {kind.show(first)} to {kind.show(last)}: {'; '.join(said)}."


@dataclass(frozen=True)
class Fit:
    """`y = base + slope * x`."""

    base: float
    slope: float
    off: float  # how far the farthest point is from the line, as a part of the line's y
    exponent: float  # of y ~ x^e over the upper half of what x spans by logarithms, where no fixed cost hides it

    def at(self, x: float) -> float:
        return self.base + self.slope * x


def fit(points: list[tuple[float, float]]) -> Fit:
    """Least squares of relative errors, so that points of every size count alike; no cost at 0 is less than none."""
    weights = [y**-2 for _, y in points]
    total = sum(weights)
    x_mean, y_mean = (sum(w * point[axis] for w, point in zip(weights, points)) / total for axis in (0, 1))
    spread = sum(w * (x - x_mean) ** 2 for w, (x, _) in zip(weights, points))
    slope = sum(w * (x - x_mean) * (y - y_mean) for w, (x, y) in zip(weights, points)) / spread
    base = y_mean - slope * x_mean
    if base < 0:
        base, slope = 0, sum(x / y for x, y in points) / sum((x / y) ** 2 for x, y in points)
    logarithms = [(math.log(x), math.log(y)) for x, y in points]
    middle = (logarithms[0][0] + logarithms[-1][0]) / 2
    exponent, _ = statistics.linear_regression(*zip(*(pair for pair in logarithms if pair[0] >= middle)))
    return Fit(base, slope, max(abs(y / (base + slope * x) - 1) for x, y in points), exponent)


def rise(peaks: list[tuple[float, float]], kind: Kind) -> str:
    if kind is SIZE:
        values = [y for _, y in peaks]
        return f"{min(values):.1f}–{max(values):.1f} MiB"
    return f"{round(fit(peaks).slope * MIB):,} B per tensor"


# Forward passes.


def forward(measured: dict) -> str:
    """A line for each network and number of threads: onnxruntime, and `ckpt` as a multiple of it."""
    pairs = list(zip(measured["rows"][::2], measured["rows"][1::2]))
    header = ["network", "threads", "forward: onnxruntime", "`ckpt`", "× (least–most)", "process: onnxruntime", "`ckpt`",
              "CPU: onnxruntime", "`ckpt`", "peak RSS, MiB: onnxruntime", "`ckpt`", "weights and widest layer, MiB"]
    rows = []
    for peer, own in pairs:
        found = [mine / its for mine, its in zip(own["forward"], peer["forward"])]
        times = [time(median(row, key)) for key in ("wall", "cpu") for row in (peer, own)]
        rows.append([own["network"], str(own["threads"]), time(median(peer, "forward")), time(median(own, "forward")),
                     f"{statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})", *times, memory(peer),
                     memory(own), f"{own['needed']:.0f}"])
    here = measured["machine"]
    packages = ", ".join(f"{name} {here['packages'][name]}" for name in ("onnxruntime", "numpy"))
    return (f"{medians(measured['rounds'])} on {here['processor']} with {here['processors']} processors, with {packages}. "
            f"Load before the first run: {here['load']:.2f}.\n\n{lines(header, rows)}")


# The Python package.


def python(measured: dict) -> str:
    """A line for each function: safetensors, and `ckpt` as so many times as fast."""
    header = ["function", "safetensors", "`ckpt`", "times as fast (least–most)", "memory beyond the arrays, MiB: safetensors",
              "`ckpt`", "bound", "met"]
    rows = []
    for row in measured["rows"]:
        own, its = row["ckpt"], row["safetensors"]
        found = [theirs / ours for ours, theirs in zip(own["seconds"], its["seconds"])]
        seconds = [statistics.median(each["seconds"]) for each in (its, own)]
        beyond = [max(0, max(each["mib"]) - row["arrays"]) for each in (its, own)]
        if "seconds" in row["bound"]:
            bound, met = f"≤ {row['bound']['seconds'] * 1000:g} ms", seconds[1] <= row["bound"]["seconds"]
        else:
            bound, met = f"≥ {row['bound']['faster']:g} ×", statistics.median(found) >= row["bound"]["faster"]
        verdicts = ["yes" if each else "**no**" for each in (met, beyond[1] <= BEYOND)]
        rows.append([row["title"], *map(brief, seconds), f"{statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})",
                     *(f"{each:.0f}" for each in beyond), f"{bound}, ≤ {BEYOND} MiB", ", ".join(dict.fromkeys(verdicts))])
    here = measured["machine"]
    packages = ", ".join(f"{name} {here['packages'][name]}" for name in ("safetensors", "numpy"))
    return (f"{medians(measured['rounds'])} on {here['processor']} with {here['processors']} processors, {here['filesystem']}, "
            f"with Python {here['python']}, {packages}. Load before the first run: {here['load']:.2f}.\n\n{lines(header, rows)}")


# Object storage.


def remote(measured: dict) -> str:
    """A conversion beside a copy over the same link, and the round trips of opening a set."""
    here, moved, opened = measured["machine"], measured["conversion"], measured["opening"]
    peer, own = statistics.median(moved["copy"]), statistics.median(moved["ckpt"])
    found = [its / ours for its, ours in zip(moved["copy"], moved["ckpt"])]
    rate, trips = lambda seconds: f"{moved['bytes'] / seconds / 1e6:.0f} MB/s", opened["shards"] / 10 + 3
    header = ["job", "peer", "`ckpt`", "bound", "met"]
    rows = [
        [f"{size(moved['bytes'])} from object to object: speed beside a download and an upload at once (least–most)",
         f"{time(peer)}, {rate(peer)}", f"{time(own)}, {rate(own)}: {statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})",
         "≥ 0.9", "yes" if statistics.median(found) >= 0.9 else "**no**"],
        [f"its memory with `--max-memory {measured['memory']}`, MiB", "", f"{max(moved['mib']):.0f}", "≤ 64",
         "yes" if max(moved["mib"]) <= 64 else "**no**"],
        [f"round trips of opening {opened['shards']} files with {opened['tensors']:,} tensors, in {opened['requests']} requests",
         "", f"{opened['trips']:.1f}", f"≤ {trips:.1f}", "yes" if opened["trips"] <= trips else "**no**"],
    ]
    return (f"{medians(measured['rounds'])} on {here['processor']} with {here['processors']} processors, {here['filesystem']}; "
            f"the store answers after {measured['latency'] * 1000:.0f} ms and sends {measured['rate'] / 1e6:.0f} MB/s in each "
            f"direction. Load before the first run: {here['load']:.2f}.\n\n{lines(header, rows)}")


def cloning(measured: dict) -> str:
    """Conversions that share blocks, beside a copy."""
    here, copy = measured["machine"], measured["copy"]
    header = ["job", "time", "× cp (least–most)", "more disk", "bound", "met"]
    rows = [["cp --reflink=never", time(statistics.median(copy)), "1.00", "100 %", "", ""]]
    for name, job in measured["jobs"].items():
        found = [own / its for own, its in zip(job["wall"], copy)]
        disk, bound = max(job["disk"]) / measured["bytes"], job["bound"]
        met = statistics.median(found) <= bound and disk < 0.01
        rows.append([name, time(statistics.median(job["wall"])), f"{statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})",
                     f"{disk:.2%}", f"≤ {bound} × cp, < 1 %", "yes" if met else "**no**"])
    return (f"{medians(measured['rounds'])} of {size(measured['bytes'] >> 20 << 20)} on {here['processor']} with {here['processors']} "
            f"processors, XFS on a loop device in memory. Load before the first run: {here['load']:.2f}.\n\n{lines(header, rows)}")


def brief(seconds: float) -> str:
    return time(seconds) if seconds >= 0.001 else f"{seconds * 1e6:.0f} µs"


def charts(results: dict) -> dict[str, str]:
    made = cluster_tables.charts(results.get("cluster", {}))
    if "growth" not in results:
        return made
    panels = (("Wall time, s", "wall"), ("Processor time, s", "cpu"), ("Peak memory, MiB", "rss"))
    for kind in (SIZE, TENSORS):
        points = results["growth"][kind.name]
        across = sorted({point["x"] for point in points})
        if kind is TENSORS:
            across = [10**power for power in range(1, int(math.log10(across[-1])) + 1)]
        ticks = [(x, kind.show(x)) for x in across]
        drawn = [Panel(what, kind.axis, ticks, fitted(series(points, key))) for what, key in panels]
        made[f"growth-{kind.name}.svg"] = svg(f"Cost by {kind.by}", drawn)
    return made


def fitted(found: dict[str, list[tuple[float, float]]]) -> dict[str, Series]:
    """With the line drawn in short pieces: on logarithmic axes it is none."""
    made = {}
    for name, points in found.items():
        line, first, last = fit(points), points[0][0], points[-1][0]
        places = [first * (last / first) ** (step / 60) for step in range(61)]
        made[name] = Series(points, [(x, line.at(x)) for x in places])
    return made


def huge(rows: list[dict]) -> str:
    names = dict.fromkeys(row["name"] for row in rows)
    sizes = dict.fromkeys(row["x"] for row in rows)
    peak = {(row["name"], row["x"]): memory(row) for row in rows}
    bounds = {row["name"]: f"≤ {row['bound']['rss']:g}" for row in rows}
    cells = [[name, *(peak[name, x] for x in sizes), bounds[name]] for name in names]
    return lines(["peak RSS, MiB", *(size(x * GIB) for x in sizes), "bound"], cells)


if __name__ == "__main__":
    main()
