#!/usr/bin/env python3
"""Draws docs/src/inspect.svg, the picture of a page that `ckpt inspect --html` writes, from such a page.

    python3 docs/picture.py [--ckpt PROGRAM] [--check]

--check fails if the picture is not what the program's page gives now. Needs nothing but Python.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "src" / "inspect.svg"
SOURCE = "examples/data/digits_saved_model"
ROWS = 4  # tensors shown: the weights, without what the SavedModel stores twice
WIDTH, HEIGHT, GRAPH = 860, 356, 0.56
STYLE = """
  svg { font: 13px system-ui, sans-serif; }
  .page { fill: #ffffff; stroke: #d0d7de; } text { fill: #1b1f24; } .quiet { fill: #57606a; }
  .title { font-size: 18px; font-weight: 600; } .head { font-weight: 600; }
  .mono { font: 12px ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
  .rule { stroke: #d0d7de; } .spark path { fill: #0550ae; }
  .line { fill: none; stroke: #57606a; stroke-width: 1.5; } .tip { fill: #57606a; }
  .box rect { fill: #ffffff; stroke: #d0d7de; stroke-width: 1.5; } .box.weighted rect { stroke: #0550ae; }
  .box .name { font-size: 14px; font-weight: 600; } .box .what, .box .more { font-size: 14px; fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; } text { fill: #e6edf3; } .quiet { fill: #9da7b3; }
    .rule { stroke: #3d444d; } .spark path { fill: #79c0ff; }
    .line { stroke: #9da7b3; } .tip { fill: #9da7b3; }
    .box rect { fill: #0d1117; stroke: #3d444d; } .box.weighted rect { stroke: #79c0ff; }
    .box .what, .box .more { fill: #9da7b3; }
  }
"""
# Columns of the table: heading, cell on the page, position, whether it is aligned on the right.
COLUMNS = [("name", 0, 24, False), ("shape", 3, 206, False), ("values", 5, 316, False), ("min", 6, 470, True),
           ("max", 7, 524, True), ("mean", 8, 586, True), ("std", 9, 640, True)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ckpt", default="ckpt", help="the program")
    options.add_argument("--check", action="store_true", help="compare, and write nothing")
    given = options.parse_args()
    picture = drawn(page(given.ckpt))
    if not given.check:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        sys.exit(f"{PICTURE} is not what {given.ckpt} shows: run {pathlib.Path(__file__).name}")


def page(ckpt: str) -> str:
    """The page that the program writes."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "page.html"
        subprocess.run([ckpt, "inspect", SOURCE, "--html", path], cwd=ROOT, check=True, capture_output=True)
        return path.read_text()


def drawn(html: str) -> str:
    found = re.search(r'<table id="tensors".*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", found[1], re.DOTALL)]
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    graph = re.search(r'<svg width="(\d+)"[^>]*aria-label="Layers of the graph">(.*?)</svg>', html, re.DOTALL)
    layers = re.sub(r"</?a\b[^>]*>|<title>.*?</title>", "", graph[2], flags=re.DOTALL).strip()
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="The page of a checkpoint: facts, tensors with histograms, layers">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        f'<text class="title" x="24" y="40">{SOURCE}</text>',
        *(f'<text class="quiet" x="24" y="{68 + 22 * number}">{key}</text><text x="110" y="{68 + 22 * number}">'
          f"{facts[key].split(' (')[0]}</text>" for number, key in enumerate(["format", "tensors", "weights", "layers"])),
        *table(rows[:ROWS]),
        f'<g transform="translate({WIDTH - 24 - int(graph[1]) * GRAPH:g} 20) scale({GRAPH})">', layers, "</g>", "</svg>",
    ]) + "\n"


def table(rows: list[list[str]]) -> list[str]:
    parts = [f'<text class="head" x="{x}" y="186"{anchor(right)}>{heading}</text>' for heading, _, x, right in COLUMNS]
    for number, row in enumerate(rows):
        y = 222 + 36 * number
        parts.append(f'<path class="rule" d="M24 {y - 24}H640"/>')
        parts += [cell(row[at], x, y, right) for _, at, x, right in COLUMNS]
    return parts


def cell(html: str, x: int, y: int, right: bool) -> str:
    spark = re.search(r'<path d="([^"]+)"/>', html)
    if spark:
        return f'<g class="spark" transform="translate({x} {y - 18}) scale(4 1.5)"><path d="{spark[1]}"/></g>'
    kind = ' class="mono"' if "<code>" in html else ""
    text = re.sub(r"<[^>]+>", "", html)
    return f'<text{kind} x="{x}" y="{y}"{anchor(right)}>{text}</text>'


def anchor(right: bool) -> str:
    return ' text-anchor="end"' if right else ""


if __name__ == "__main__":
    main()
