#!/usr/bin/env python3
"""Writes measured figures into the pages that show them, so that none is typed by hand.

    python benches/peers/report.py [--check]

From `results.json` beside this script (see bench.py --readme) into the README's section "How fast", the guide's page
docs/src/performance.md and its charts. --check: fails where a page shows anything else. Needs nothing but Python.
"""

import json
import math
import pathlib
import re
import statistics
import sys

from chart import Panel, svg

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = pathlib.Path(__file__).with_name("results.json")
README, PAGE = ROOT / "README.md", ROOT / "docs" / "src" / "performance.md"
GIB, MIB = 2**30, 2**20
# In place of figures that nobody took yet.
UNMEASURED = "*Not measured yet: see below for how.*"


def main() -> None:
    rewrite(check=sys.argv[1:] == ["--check"])


def save(path: pathlib.Path, results: dict) -> None:
    """What the file has of other kinds of measurement stays."""
    known = json.loads(path.read_text()) if path.exists() else {}
    text = json.dumps(known | results, indent=1)
    # One line for each list of numbers.
    text = re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n")


def rewrite(check: bool = False) -> None:
    if not RESULTS.exists():
        print(f"no figures are kept: {RESULTS.name} is made by bench.py --readme")
        return
    results = json.loads(RESULTS.read_text())
    blocks = {"machine": described(results), "summary": summary(results), **sections(results)}
    written = {path: filled(path, blocks) for path in (README, PAGE)}
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
        made["jobs"] = "\n\n".join(table(each) for each in results["jobs"]["tables"])
    if "growth" in results:
        made["size"] = grown(results["growth"]["size"], "size", "s per GiB", GIB)
        made["tensors"] = grown(results["growth"]["tensors"], "tensors", "µs per tensor", 1e6)
    if "huge" in results:
        made["huge"] = huge(results["huge"]["rows"])
    return made


def text(results: dict) -> str:
    """Everything, for a terminal."""
    return "\n\n".join([described(results), *sections(results).values()])


# Words.


def median(row: dict, key: str) -> float:
    return statistics.median(row[key])


def time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if abs(seconds) < 0.1 else f"{seconds:.2f} s"


def memory(row: dict) -> str:
    peak = max(row["rss"])
    return f"{peak:.0f}" if peak >= 10 else f"{peak:.1f}"


def size(value: float) -> str:
    return f"{value / GIB:g} GiB" if value >= GIB else f"{value / MIB:g} MiB"


def medians(rounds: int) -> str:
    return f"Medians of {rounds} rounds" if rounds > 1 else "One round"


def lines(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose first column is text, as are those without a title."""
    ruler = ["---" if place == 0 or not title else "---:" for place, title in enumerate(header)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ruler, *rows])


def described(results: dict) -> str:
    here = next(iter(results.values()))["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
    vectors = f" ({', '.join(here['vectors'])})" if here["vectors"] else ""
    python = f"Python {here['python']}" + (f" with {packages}" if packages else "")
    return (f"{here['processor']}, {here['processors']} processors{vectors}, {here['memory_gib']:.0f} GiB of memory, "
            f"{here['filesystem']}, Linux {here['kernel']}; {here['ckpt']}, {here['cp']}, {python}. "
            f"Load before the first run: {here['load']:.2f}.")


# Tables of jobs.


def ratios(row: dict, other: dict) -> list[float]:
    """Wall time as a multiple of another program's, round by round."""
    return [own / its for own, its in zip(row["wall"], other["wall"])]


def table(measured: dict) -> str:
    rows = measured["rows"]
    by_name = {row["name"]: row for row in rows}
    base = by_name.get(measured.get("baseline"))
    beside = any("beside" in row for row in rows)
    header = ["program", "wall", *(["× cp (least–most)"] if base else []), *(["× ckpt"] if beside else []), "CPU",
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
        cell += [time(median(row, "cpu")), memory(row), *judged(row, base, by_name)]
        cells.append(cell)
    return f"**{measured['title']}**: {medians(measured['rounds']).lower()}\n\n{lines(header, cells)}"


def slower(row: dict, by_name: dict) -> float:
    return statistics.median(ratios(row, by_name[row["beside"]]))


def judged(row: dict, base: dict | None, by_name: dict) -> list[str]:
    """The bound, and whether it is met."""
    bound, said, met = row["bound"], [], []
    if "ratio" in bound and base:
        said.append(f"≤ {bound['ratio']:g} × cp")
        met.append(statistics.median(ratios(row, base)) <= bound["ratio"])
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


def summary(results: dict) -> str:
    """What the README shows: one line for each job, and beside Python."""
    if "jobs" not in results:
        return ""
    jobs = results["jobs"]
    tables = {each["id"]: each for each in jobs["tables"]}
    threaded: dict[str, dict[int, str]] = {}
    peaks: dict[str, float] = {}
    for key in ("tf2", "safetensors", "networks", "transposed", "casts", "cold"):
        base = tables[key]["rows"][0]
        for row in tables[key]["rows"][1:]:
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
    if "python" in tables:
        parts.append(beside_python(tables))
    return "\n\n".join([*parts, instants(tables)])


def beside_python(tables: dict[str, dict]) -> str:
    rows = []
    for key in ("python", "small-python"):
        by_name = {row["name"]: row for row in tables[key]["rows"]}
        what = "" if key == "python" else f", {tables[key]['title'].removesuffix(', beside Python')}"
        for row in by_name.values():
            if "beside" in row:
                own = by_name[row["beside"]]
                rows.append([own["job"] + what, row["name"], time(median(row, "wall")), time(median(own, "wall")),
                             f"{slower(row, by_name):.1f}", memory(row), memory(own)])
    return lines(["beside Python", "", "Python", "`ckpt`, 2 threads", "times as fast", "peak RSS, MiB: Python",
                  "`ckpt`"], rows)


def instants(tables: dict[str, dict]) -> str:
    quick = [row for row in tables["small"]["rows"] if row.get("threads") == 2]
    said = [f"{row['job']}, {tables['small']['title']}: {time(median(row, 'wall'))}" for row in quick]
    said += [f"`{row['name'].split(' of ')[0]}`{''.join(row['name'].partition(' of ')[1:])}: {time(median(row, 'wall'))}"
             for row in tables["instant"]["rows"] if row["name"].startswith("ckpt")]
    return "; ".join(said) + "."


# Growth.


def series(points: list[dict], key: str) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        value = max(point[key]) if key == "rss" else median(point, key)
        found.setdefault(point["name"], []).append((point["x"], value))
    return found


def grown(points: list[dict], kind: str, unit: str, per: float) -> str:
    """The figures, and the line through them."""
    walls, cpus, peaks = (series(points, key) for key in ("wall", "cpu", "rss"))
    show = size if kind == "size" else (lambda count: f"{count:,}")
    header = [kind, *(f"{name}: wall, CPU, MiB" for name in walls)]
    rows = []
    for x in dict.fromkeys(point["x"] for point in points):
        cells = []
        for name in walls:
            wall, cpu, peak = (dict(each[name]).get(x, math.nan) for each in (walls, cpus, peaks))
            cells.append(f"{time(wall)}, {time(cpu)}, {peak:.1f}")
        rows.append([show(x), *cells])
    fits = []
    for name, found in walls.items():
        line = fit(found)
        fits.append([name, f"{line['slope'] * per:.3g}", time(max(line["base"], 0)), f"{line['r2']:.4f}",
                     f"{line['exponent']:.2f}", rise(peaks[name], kind)])
    least_squares = lines(["wall time, least squares", unit, "at 0", "R²", "exponent", "memory"], fits)
    by = "size" if kind == "size" else "number of tensors"
    chart = f"![Wall time and peak memory by {by}](growth-{kind}.svg)"
    return f"{chart}\n\n{lines(header, rows)}\n\n{least_squares}"


def fit(points: list[tuple[float, float]]) -> dict:
    """Least squares: y = base + slope * x, with R squared; and the exponent of y ~ x^e, by logarithms, over the upper half
    of what x spans on that scale, where a fixed cost no longer hides it."""

    def line(pairs):
        return statistics.linear_regression(*zip(*pairs)), statistics.correlation(*zip(*pairs)) ** 2

    (slope, base), squared = line(points)
    logarithms = [(math.log(x), math.log(y)) for x, y in points]
    middle = (logarithms[0][0] + logarithms[-1][0]) / 2
    (exponent, _), _ = line([pair for pair in logarithms if pair[0] >= middle])
    return {"slope": slope, "base": base, "r2": squared, "exponent": exponent}


def rise(peaks: list[tuple[float, float]], kind: str) -> str:
    if kind == "size":
        values = [y for _, y in peaks]
        return f"{min(values):.1f}–{max(values):.1f} MiB"
    return f"{fit(peaks)['slope'] * MIB:.0f} B per tensor"


def charts(results: dict) -> dict[str, str]:
    if "growth" not in results:
        return {}
    by_size, by_count = results["growth"]["size"], results["growth"]["tensors"]
    sizes = sorted({point["x"] for point in by_size})
    names = [size(x).replace(" MiB", "M").replace(" GiB", "G") for x in sizes]
    ticks = list(zip(sizes, names))
    most = max(point["x"] for point in by_count)
    counts = [(10**power, f"{10**power:,}") for power in range(1, math.ceil(math.log10(most)) + 1)]
    made = {}
    for name, title, points, marks, axis in (
        ("growth-size.svg", "Cost by size of the checkpoint", by_size, ticks, "bytes, in 32 tensors"),
        ("growth-tensors.svg", "Cost by number of tensors", by_count, counts, "tensors of 1 KiB"),
    ):
        made[name] = svg(title, [Panel("Wall time", "s", axis, marks, series(points, "wall"), guide=True),
                                 Panel("Peak memory", "MiB", axis, marks, series(points, "rss"))])
    return made


def huge(rows: list[dict]) -> str:
    names = dict.fromkeys(row["name"] for row in rows)
    sizes = dict.fromkeys(row["x"] for row in rows)
    peak = {(row["name"], row["x"]): memory(row) for row in rows}
    bounds = {row["name"]: f"≤ {row['bound']['rss']:g}" for row in rows}
    cells = [[name, *(peak[name, x] for x in sizes), bounds[name]] for name in names]
    return lines(["peak RSS, MiB", *(f"{x} GiB" for x in sizes), "bound"], cells)


if __name__ == "__main__":
    main()
