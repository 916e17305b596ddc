"""Figures in words, and tables, for the pages."""

import statistics

GIB, MIB = 2**30, 2**20


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
