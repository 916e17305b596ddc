"""Figures in words, and tables, for the pages."""

import pathlib
import statistics

RESULTS = pathlib.Path(__file__).with_name("results.json")
GIB, MIB = 2**30, 2**20


def time(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def memory(mib: float) -> str:
    return f"{mib:.0f}" if mib >= 10 else f"{mib:.1f}"


def size(value: float) -> str:
    return f"{value / GIB:g} GiB" if value >= GIB else f"{value / MIB:g} MiB"


def ratio(own: list[float], others: list[float]) -> list[float]:
    """How many times as much as another program's in the same rounds: the median, the least and the most."""
    found = [mine / its for mine, its in zip(own, others, strict=True)]
    return [round(each, 6) for each in (statistics.median(found), min(found), max(found))]


def spread(found: list[float]) -> str:
    return "{:.2f} ({:.2f}–{:.2f})".format(*found)


def rounds(count: int) -> str:
    return f"Medians of {count} rounds" if count > 1 else "One round"


def on(machine: dict, *packages: str) -> str:
    """Where something was measured."""
    with_packages = ", with " + ", ".join(f"{name} {machine['packages'][name]}" for name in packages) if packages else ""
    return (f"on {machine['processor']} with {machine['processors']} processors, {machine['filesystem']}{with_packages}; load before "
            f"the first run: {machine['load']:.2f}")


def table(rows: list[dict[str, str]]) -> str:
    """A table in Markdown, with what is short on the right, but for the first column."""
    header = list(rows[0])
    is_long = [any(len(row[name]) > 24 for row in rows) for name in header]
    ruler = ["---" if place == 0 or is_long[place] else "---:" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ruler, *(list(row.values()) for row in rows)])
