"""Line charts on logarithmic axes as SVG, legible on light and dark pages, without any library."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 380, 320  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 58, 26, 34, 52
STYLE = """
  svg { font: 12px system-ui, sans-serif; }
  .page { fill: #ffffff; } .text { fill: #24292f; } .quiet { fill: #57606a; }
  .grid { stroke: #d0d7de; stroke-width: 1; } .frame { stroke: #8c959f; fill: none; }
  .thin { stroke-opacity: 0.45; stroke-width: 0.6; }
  .line { fill: none; stroke-width: 1.8; } .dot { stroke-width: 1.8; fill: #ffffff; }
  .s0 { stroke: #6e7781; } .s1 { stroke: #0969da; } .s2 { stroke: #bc4c00; } .s3 { stroke: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #e6edf3; } .quiet { fill: #9198a1; }
    .grid { stroke: #30363d; } .frame { stroke: #6e7681; } .dot { fill: #0d1117; }
    .s0 { stroke: #9198a1; } .s1 { stroke: #58a6ff; } .s2 { stroke: #f0883e; } .s3 { stroke: #3fb950; }
  }
"""


@dataclass
class Series:
    """Points (x, y) and the line through them, all above 0."""

    points: list[tuple[float, float]]
    line: list[tuple[float, float]]


@dataclass
class Panel:
    """On logarithmic axes. `ticks` of the x axis have names."""

    title: str  # with the unit of y
    x_title: str
    ticks: list[tuple[float, str]]
    series: dict[str, Series]


def svg(title: str, panels: list[Panel], note: str = "points: measured; lines: fitted") -> str:
    width = WIDTH * len(panels)
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    height = HEIGHT + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>{STYLE}</style>", f"<title>{escape(title)}</title>",
        f'<rect class="page" width="{width}" height="{height}" rx="6"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * WIDTH} 0)">', *drawn(panel, names), "</g>"]
    parts += legend(names, HEIGHT + 8, note)
    return "\n".join([*parts, "</svg>"]) + "\n"


def drawn(panel: Panel, names: list[str]) -> list[str]:
    points = [point for each in panel.series.values() for point in each.points]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    rules = rounded(min(y for _, y in points) / 1.1, max(y for _, y in points) * 1.1)
    low, high = rules[0], rules[-1]

    def across(x: float) -> float:
        return LEFT + math.log(x / first) / math.log(last / first) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - math.log(y / low) / math.log(high / low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text class="text" x="{LEFT}" y="22" font-weight="600">{escape(panel.title)}</text>',
             f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">'
             f"{escape(panel.x_title)}</text>", *grid(panel, rules, across, down)]
    for name, each in panel.series.items():
        look = names.index(name) % len(SHAPES)
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in each.line if low <= y <= high)
        parts.append(f'<polyline class="line s{look}" points="{path}"/>')
        parts += [mark(look, across(x), down(y)) for x, y in each.points]
    return parts


def rounded(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, the first at most `low`, the last at least `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [times * 10**power for power in powers for times in (1, 2, 5)]
    return [max(step for step in steps if step <= low), *(step for step in steps if low < step < high),
            min(step for step in steps if step >= high)]


def grid(panel: Panel, rules: list[float], across, down) -> list[str]:
    """Where there are many rules, powers of ten alone have their number."""
    parts = []
    for rule in rules:
        power = math.isclose(rule, 10 ** round(math.log10(rule)))
        parts.append(f'<line class="grid{"" if power else " thin"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(rule):.1f}" '
                     f'y2="{down(rule):.1f}"/>')
        if power or len(rules) < 7:
            parts.append(f'<text class="quiet" x="{LEFT - 8}" y="{down(rule) + 4:.1f}" text-anchor="end">{rule:g}</text>')
    for x, name in panel.ticks:
        parts += [f'<line class="grid" x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
                  f'<text class="quiet" x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                  f"{escape(name)}</text>"]
    return [*parts, f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
                    f'height="{HEIGHT - TOP - BOTTOM}"/>']


# So that series are told apart without colors too: circle, square, triangle, diamond.
SHAPES = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.5 -3.5h7v7h-7z", "M0 -4.6l4.4 7.8h-8.8z",
          "M0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z"]


def mark(look: int, x: float, y: float) -> str:
    return f'<path class="dot s{look}" transform="translate({x:.1f} {y:.1f})" d="{SHAPES[look]}"/>'


def legend(names: list[str], y: int, note: str) -> list[str]:
    parts, x = [], LEFT
    for number, name in enumerate(names):
        look = number % len(SHAPES)
        parts += [f'<line class="line s{look}" x1="{x}" x2="{x + 30}" y1="{y}" y2="{y}"/>', mark(look, x + 15, y),
                  f'<text class="text" x="{x + 37}" y="{y + 4}">{escape(name)}</text>']
        x += 37 + 7 * len(name) + 24
    return [*parts, f'<text class="quiet" x="{x}" y="{y + 4}">{escape(note)}</text>']
