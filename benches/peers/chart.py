"""Line charts on logarithmic axes as SVG, legible on light and dark pages, without any library."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 420, 300  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 62, 30, 44, 46
STYLE = """
  svg { font: 12px system-ui, sans-serif; }
  .page { fill: #ffffff; } .text { fill: #24292f; } .quiet { fill: #57606a; }
  .grid { stroke: #d0d7de; stroke-width: 1; } .frame { stroke: #8c959f; fill: none; }
  .guide { stroke: #8c959f; stroke-width: 1; }
  .line { fill: none; stroke-width: 2; } .s0 { stroke: #6e7781; } .s1 { stroke: #0969da; } .s2 { stroke: #bc4c00; }
  .s3 { stroke: #1a7f37; } .dot { stroke-width: 2; fill: #ffffff; }
  .dash0 { stroke-dasharray: 2 4; } .dash2 { stroke-dasharray: 7 4; } .dash3 { stroke-dasharray: 7 3 2 3; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #e6edf3; } .quiet { fill: #9198a1; }
    .grid { stroke: #30363d; } .frame, .guide { stroke: #6e7681; } .dot { fill: #0d1117; }
    .s0 { stroke: #9198a1; } .s1 { stroke: #58a6ff; } .s2 { stroke: #f0883e; } .s3 { stroke: #3fb950; }
  }
"""


@dataclass
class Panel:
    """Series of (x, y), all above 0; `ticks` of the x axis have names, those of the y axis are powers of ten. `guide`: a thin
    line through the last point of the last series, on which y is proportional to x."""

    title: str
    unit: str
    x_title: str
    ticks: list[tuple[float, str]]
    series: dict[str, list[tuple[float, float]]]
    guide: bool = False


def svg(title: str, panels: list[Panel]) -> str:
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
    parts += legend(names, HEIGHT + 8)
    return "\n".join([*parts, "</svg>"]) + "\n"


def drawn(panel: Panel, names: list[str]) -> list[str]:
    values = [y for points in panel.series.values() for _, y in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    first, last = (math.log10(panel.ticks[end][0]) for end in (0, -1))

    def across(x: float) -> float:
        return LEFT + (math.log10(x) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text class="text" x="{LEFT}" y="22" font-weight="600">{escape(panel.title)}</text>',
             f'<text class="quiet" x="{LEFT}" y="37">{escape(panel.unit)}</text>',
             f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
             f"{escape(panel.x_title)}</text>"]
    for power in range(low, high + 1):
        y = down(10**power)
        parts += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
                  f'<text class="quiet" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:g}</text>']
    for x, name in panel.ticks:
        parts += [f'<line class="grid" x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
                  f'<text class="quiet" x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{name}</text>']
    parts.append(f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>')
    if panel.guide:
        x, y = list(panel.series.values())[-1][-1]
        start = max(panel.ticks[0][0], x * 10**low / y)
        parts.append(f'<line class="guide" x1="{across(start):.1f}" y1="{down(y * start / x):.1f}" '
                     f'x2="{across(x):.1f}" y2="{down(y):.1f}"/>')
    for name, points in panel.series.items():
        look = names.index(name) % 4
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{look} dash{look}" points="{path}"/>')
        parts += [f'<circle class="dot s{look}" cx="{across(x):.1f}" cy="{down(y):.1f}" r="3"/>' for x, y in points]
    return parts


def legend(names: list[str], y: int) -> list[str]:
    parts, x = [], LEFT
    for look, name in enumerate(names):
        parts += [f'<line class="line s{look % 4} dash{look % 4}" x1="{x}" x2="{x + 30}" y1="{y}" y2="{y}"/>',
                  f'<text class="text" x="{x + 37}" y="{y + 4}">{escape(name)}</text>']
        x += 37 + 7 * len(name) + 24
    return parts
