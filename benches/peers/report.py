#!/usr/bin/env python3
"""Writes measured figures into the pages that show them, so that none is typed by hand.

    python benches/peers/report.py [--check]

From `results.json` beside this script (see bench.py --readme) into the README's line of figures and the guide's pages
docs/src/performance.md and docs/src/terabytes.md. --check: fails where a page shows anything else. Needs nothing but Python.

Tables of jobs are kept as figures, one program a line: the median of its times, that of its ratios to `cp` with the least and
the most, and the peak of its memory. Everything else is kept as the cells that the pages show.
"""

import json
import pathlib
import re
import statistics
import sys
import textwrap

import terabytes
from words import GIB, RESULTS, memory, size, spread, table, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
README, PAGE, TERABYTES = ROOT / "README.md", ROOT / "docs" / "src" / "performance.md", ROOT / "docs" / "src" / "terabytes.md"
# In place of figures that nobody took yet.
UNMEASURED = "*Not measured yet: see below for how.*"


def main() -> None:
    rewrite(check=sys.argv[1:] == ["--check"])


def finish(results: dict, readme: bool) -> None:
    """Prints everything; with `readme`, puts it into the repository, and into its pages."""
    print("\n\n".join(blocks(results).values()))
    if readme:
        save(RESULTS, results)
        rewrite()


def save(path: pathlib.Path, results: dict) -> None:
    """What the file has of other kinds of measurement stays, and so do tables of jobs with other ids."""
    known = json.loads(path.read_text()) if path.exists() else {}
    if "jobs" in known and "jobs" in results:
        old, new = known["jobs"], results["jobs"]
        if any("apart" in each for each in new["tables"].values()):
            if old["gib"] != new["gib"]:
                sys.exit(f"tables of {new['gib']:g} GiB do not go with those of {old['gib']:g} GiB")
            new = old
        results = results | {"jobs": new | {"tables": old["tables"] | results["jobs"]["tables"]}}
    text = json.dumps(known | results, indent=1, ensure_ascii=False)
    # One line for each list of numbers, and for each row.
    for innermost in (r"\[[^\]\[{}]*\]", r"\{[^{}]*\}"):
        text = re.sub(innermost, lambda found: re.sub(r",\s+", ", ", re.sub(r"(?<=[\[{])\s+|\s+(?=[\]}])", "", found[0])), text)
    path.write_text(text + "\n")


def rewrite(check: bool = False) -> None:
    made = blocks(json.loads(RESULTS.read_text()))
    for path in (README, PAGE, TERABYTES):
        text = filled(path, made)
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path} does not show what {RESULTS} has: run benches/peers/report.py")


def filled(path: pathlib.Path, made: dict[str, str]) -> str:
    """The page with every `<!-- figures: NAME -->` … `<!-- /figures -->` written anew."""
    place = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
    text, seen = place.subn(lambda found: f"{found[1]}{made.get(found[2], UNMEASURED)}\n{found[3]}", path.read_text())
    if seen == 0:
        sys.exit(f"{path} has no place for figures")
    return text


def blocks(results: dict) -> dict[str, str]:
    """What the pages show, by the names of the places."""
    made = {name: "\n\n".join(filter(None, [found["said"], table(found["rows"])]))
            for name, found in results.items() if "rows" in found}
    if "jobs" in results:
        made |= {"machine": results["jobs"]["said"], "headline": headline(results["jobs"]), "jobs": jobs(results["jobs"])}
    if "terabytes" in results:
        made |= terabytes.blocks(results["terabytes"])
    return made


# Jobs.


def described(machine: dict) -> str:
    """The machine of the jobs."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    vectors = f" ({', '.join(machine['vectors'])})" if machine["vectors"] else ""
    return (f"{machine['processor']}, {machine['processors']} processors{vectors}, {machine['memory_gib']:.0f} GiB of memory, "
            f"{machine['filesystem']}, Linux {machine['kernel']}; {machine['ckpt']}, {machine['cp']}, Python {machine['python']}"
            f"{f' with {packages}' if packages else ''}. Load before the first run: {machine['load']:.2f}.")


def where(machine: dict) -> str:
    return f"{machine['processor']} with {machine['processors']} processors"


def headline(measured: dict) -> str:
    """The README's figures: the median and the range of all large conversions from a warm cache, and Python's."""
    large = [each for each in measured["tables"].values() if "large" in each]
    rows = [row for each in large for row in each["rows"] if row.get("threads") == 2]
    if not rows:
        return ""
    by_job: dict[str, list[float]] = {}
    for row in rows:
        by_job.setdefault(row["job"], []).append(row["ratio"][0])
    typical = statistics.median(statistics.median(each) for each in by_job.values())
    middles, least, most = ([row["ratio"][place] for row in rows] for place in range(3))
    slower = [row["slower"] for each in large for row in each["rows"] if "slower" in row]
    counts = " or ".join(", ".join(map(str, sorted({each["rounds"] for each in large}))).rsplit(", ", 1))
    python = (f" Python programs for {len(slower)} of these conversions take {min(slower):.1f} to {max(slower):.0f} times as long as "
              "`ckpt`." if slower else "")
    return textwrap.fill(
        f"About as fast as `cp`: a conversion of {size(measured['gib'] * GIB)} takes {typical:.2f} times as long with 2 threads (the "
        f"median of {len(by_job)} conversions; {min(middles):.2f} to {max(middles):.2f}), in at most "
        f"{max(row['mib'] for row in rows):.0f} MiB of memory.{python} Measured on {measured['where']}, in {counts} rounds; single "
        f"rounds take {min(least):.2f} to {max(most):.1f} times as long as `cp`.", 125, break_on_hyphens=False)


def jobs(measured: dict) -> str:
    """Conversions with each number of threads, what Python takes for them, and what is no conversion."""
    conversions: dict[str, list[dict]] = {}
    peers, commands = [], []
    for key, each in measured["tables"].items():
        by_name = {row["name"]: row for row in each["rows"]}
        for row in each["rows"]:
            if "beside" in row:
                peers.append(beside_python(by_name[row["beside"]], row, each.get("of", "")))
            elif "threads" in row and not key.endswith("python"):
                conversions.setdefault(row["job"] + each.get("of", ""), []).append(row)
            elif row["name"].startswith("ckpt "):
                commands.append({"command": row["name"], "time": time(row["wall"]), "peak RSS, MiB": memory(row["mib"])})
    converted = [conversion(name, rows) for name, rows in conversions.items()]
    apart: dict[str, list[str]] = {}
    for key, each in measured["tables"].items():
        if "apart" in each:
            apart.setdefault(each["apart"], []).append(key)
    others = [f"Measured at another time: {', '.join(keys)}; {place}." for place, keys in apart.items()]
    return "\n\n".join([*(table(rows) for rows in (converted, peers, commands) if rows), *others])


def conversion(name: str, rows: list[dict]) -> dict[str, str]:
    ratios = {row["threads"]: spread(row["ratio"]) for row in rows}
    return {"conversion": name, "1 thread, × `cp` (least–most)": ratios.get(1, ""), "2 threads, × `cp`": ratios.get(2, ""),
            "time": time(rows[-1]["wall"]), "peak RSS, MiB": memory(max(row["mib"] for row in rows))}


def beside_python(own: dict, peer: dict, of: str) -> dict[str, str]:
    return {"beside Python": own["job"] + of, "program": peer["name"], "Python": time(peer["wall"]),
            "`ckpt`, 2 threads": time(own["wall"]), "times as fast": f"{peer['slower']:.1f}",
            "peak RSS, MiB: Python": memory(peer["mib"]), "`ckpt`": memory(own["mib"])}


if __name__ == "__main__":
    main()
