"""Horizontal bar charts in one SVG: plain shapes, readable on light and on dark pages."""
from collections import namedtuple
from html import escape

# bars: (label, value, colour)
Chart = namedtuple("Chart", "title subtitle bars")

WIDTH, COLUMNS, GAP, PADDING = 860, 2, 40, 24
LABEL_WIDTH, VALUE_WIDTH, BAR, STEP, HEAD = 124, 58, 16, 26, 52
FONT = "font-family='-apple-system,Segoe UI,Helvetica,Arial,sans-serif'"


def text(x, y, content, size=12, fill="#57606a", anchor="start", weight="normal"):
    return (f"<text x='{x:g}' y='{y:g}' font-size='{size}' fill='{fill}' "
            f"text-anchor='{anchor}' font-weight='{weight}'>{escape(content)}</text>")


def short(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def draw(chart, x, y, width):
    """The chart's shapes and its height."""
    shapes = [text(x, y + 14, chart.title, 14, "#1f2328", weight="600"),
              text(x, y + 32, chart.subtitle)]
    room = width - LABEL_WIDTH - VALUE_WIDTH
    most = max((value for _, value, _ in chart.bars), default=1) or 1
    for i, (label, value, colour) in enumerate(chart.bars):
        top, start = y + HEAD + i * STEP, x + LABEL_WIDTH
        length = max(room * value / most, 2)
        shapes.append(text(start - 8, top + 12.5, label, anchor="end"))
        shapes.append(f"<rect x='{start:g}' y='{top:g}' width='{length:.1f}' height='{BAR}' "
                      f"rx='2' fill='{colour}'/>")
        shapes.append(text(start + length + 6, top + 12.5, short(value), fill="#1f2328"))
    return shapes, HEAD + len(chart.bars) * STEP


def page(charts):
    column = (WIDTH - 2 * PADDING - (COLUMNS - 1) * GAP) / COLUMNS
    shapes, y = [], PADDING
    for first in range(0, len(charts), COLUMNS):
        tallest = 0
        for i, chart in enumerate(charts[first:first + COLUMNS]):
            drawn, height = draw(chart, PADDING + i * (column + GAP), y, column)
            shapes += drawn
            tallest = max(tallest, height)
        y += tallest + GAP / 2
    height = y - GAP / 2 + PADDING
    size = f"viewBox='0 0 {WIDTH} {height:g}' width='{WIDTH}' height='{height:g}'"
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>",
                      f"<rect width='{WIDTH}' height='{height:g}' rx='6' fill='#ffffff'/>",
                      *shapes, "</svg>"]) + "\n"
