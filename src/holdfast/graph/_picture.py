"""Pictures of a graph: Mermaid text, an SVG, and a page that shows it. Each is whole in itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html import escape

from holdfast.graph._layout import Cell, Line, lay_out
from holdfast.graph._model import Graph
from holdfast.graph._sketch import Kind, Shape, Sketch

BRACKETS: dict[Kind, tuple[str, str]] = {
    "start": ("([", "])"),
    "router": ("{", "}"),
    "step": ("[", "]"),
    "mark": ("((", "))"),
}
# Mermaid, HTML and Markdown all read a label, and most signs mean something to one of them; not _ and - between letters.
SIGN = re.compile(r"[^\w -]|(?<![^\W_])[_-]|[_-](?![^\W_])")
LONGEST = 48  # characters of a text that an SVG shows; its tooltip has the rest
SMALLEST = 0.6  # of its own size, so that 13 px text keeps 8
HEAD = 10  # the length of an arrow's head
LETTER = 8  # the width that a character of the style sheet's font needs
SLANT = 20  # of a router's sides
STYLE = """
.holdfast { color: #1f2328; font: 13px/1 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.holdfast .ground { fill: #ffffff; }
.holdfast text { fill: currentColor; text-anchor: middle; dominant-baseline: central; white-space: pre; }
.holdfast .node rect, .holdfast .node polygon { fill: #f2f5f9; stroke: currentColor; stroke-width: 1.2; }
.holdfast .start rect, .holdfast .start polygon { stroke-width: 3; }
.holdfast .line { fill: none; stroke: currentColor; stroke-width: 1.2; opacity: 0.75; }
.holdfast .guess { stroke-dasharray: 2 5; }
.holdfast .label { font-size: 12px; }
@media (prefers-color-scheme: dark) {
.holdfast { color: #e6edf3; }
.holdfast .ground { fill: #0d1117; }
.holdfast .node rect, .holdfast .node polygon { fill: #1c2430; }
}
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ margin: 0; background: #ffffff; }}
svg {{ display: block; margin: 0 auto; max-width: 100%; min-width: {least}px; height: auto; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0d1117; }} }}
</style>
</head>
<body>
{svg}</body>
</html>
"""


def to_mermaid(graph: Graph) -> str:
    """The graph as a Mermaid flowchart. A dotted arrow is a route that a router may take but does not declare."""
    sketch = Sketch(graph)
    lines = ["flowchart TD"]
    for shape in sketch.shapes:
        opening, closing = BRACKETS[shape.kind]
        lines.append(f"{shape.key}{opening}{_quoted(shape.text)}{closing}{':::start' if shape.is_start else ''}")
    for arrow in sketch.arrows:
        label = f"|{_quoted(arrow.label)}|" if arrow.label else ""
        lines.append(f"{arrow.source} {'-.->' if arrow.is_guess else '-->'}{label} {arrow.target}")
    return "\n    ".join([*lines, "classDef start stroke-width:3px"]) + "\n"


def to_svg(graph: Graph) -> str:
    """The graph as an SVG that follows the reader's light or dark theme. The same graph gives the same text."""
    sketch = Sketch(graph)
    shapes = {shape.key: _room_for(shape) for shape in sketch.shapes}
    lines = _lines_of(sketch)
    firsts = [shape.key for shape in sketch.shapes if shape.is_start]
    layout = lay_out(shapes, [line for line, _, _ in lines], firsts)
    width, height, name = round(layout.width), round(layout.height), _xml(graph.name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="holdfast" role="img" aria-label="{name}"'
        f' width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>{name}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="holdfast-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path d="M0 0 10 5 0 10z" fill="currentColor"/></marker></defs>',
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    for number, (line, label, is_guess) in enumerate(lines):
        path = _path(shapes[line.source], line, shapes[line.target], number)
        kind = "line guess" if is_guess else "line"
        parts.append(f'<path class="{kind}" marker-end="url(#holdfast-arrow)" d="{path}"/>')
        if line.label is not None:
            parts.append(f'<g class="label">{_text(label, line.label)}</g>')
    parts += [_drawn(shape, shapes[shape.key]) for shape in sketch.shapes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def to_html(graph: Graph) -> str:
    """A page that shows the graph's SVG, on a narrow screen as small as can still be read. It loads nothing and runs nothing."""
    svg = to_svg(graph)
    width = int(svg.split('width="', 1)[1].split('"', 1)[0])
    return PAGE.format(title=_xml(graph.name), svg=svg, least=round(width * SMALLEST))


def _printable(text: str) -> str:
    """Without what XML cannot hold and nobody could see."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in "\ufffe\uffff" else c for c in text)


def _quoted(text: str) -> str:
    """For Mermaid, which takes no empty text."""
    return f'"{SIGN.sub(lambda sign: f"#{ord(sign[0])};", _printable(text)) or " "}"'


def _xml(text: str) -> str:
    return escape(_printable(text))


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _width(text: str) -> int:
    return LETTER * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in _shown(text))


def _room_for(shape: Shape) -> Cell:
    padding, height = {"start": (36, 40), "router": (52, 44), "step": (28, 40), "mark": (14, 26)}[shape.kind]
    return Cell(_width(shape.text) + padding, height, slant=SLANT if shape.kind == "router" else 0)


def _lines_of(sketch: Sketch) -> list[tuple[Line, str, bool]]:
    """One line for all arrows between the same two shapes, its label, and whether it is a guess."""
    labels: dict[tuple[str, str, bool], list[str]] = {}
    for arrow in sketch.arrows:
        labels.setdefault((arrow.source, arrow.target, arrow.is_guess), []).append(arrow.label)
    found = []
    for (source, target, is_guess), texts in labels.items():
        text = " · ".join(filter(None, texts))
        found.append((Line(source, target, Cell(_width(text), 16) if text else None), text, is_guess))
    return found


def _path(source: Cell, line: Line, target: Cell, number: int) -> str:
    return " ".join(_down(source, line, target) if line.lane is None else _round(source, line.lane, target, number))


def _down(source: Cell, line: Line, target: Cell) -> Iterator[str]:
    """From layer to layer, with a break for the label. The end is straight: an arrow's head points along it."""
    yield f"M{round(source.x)} {round(source.bottom)}"
    if source.floor > source.bottom:
        yield f"V{round(source.floor)}"
    here = source
    for cell in (*line.through, target):
        end = cell.ceiling - (HEAD if cell is target else 0)
        x, middle = round(cell.x), round((here.floor + end) / 2)
        yield f"C{round(here.x)} {middle} {x} {middle} {x} {round(end)}"
        if cell is not target:
            yield f"{'M' if cell is line.label else 'L'}{x} {round(cell.floor)}"
        here = cell
    yield f"V{round(target.top)}"


def _round(source: Cell, lane: float, target: Cell, number: int) -> Iterator[str]:
    """Up again at the side. It leaves and enters there too where nothing is in the way, else below and above."""
    side, apart = round(lane), number % 4 * 2
    if source.is_outermost:
        out = round(source.y) + 8
        yield f"M{round(source.right(8))} {out}"
    else:
        x, out = round(source.x), round(source.floor) + 8 + apart
        yield f"M{x} {round(source.bottom)} V{out - 8} Q{x} {out} {x + 8} {out}"
    back = round(target.y) - 8 if target.is_outermost else round(target.ceiling) - HEAD - 6 - apart
    yield f"H{side - 8} Q{side} {out} {side} {out - 8} V{back + 8} Q{side} {back} {side - 8} {back}"
    if target.is_outermost:
        yield f"H{round(target.right(8))}"
    else:
        x = round(target.x)
        yield f"H{x + 8} Q{x} {back} {x} {back + 8} V{round(target.top)}"


def _text(text: str, cell: Cell) -> str:
    whole = f"<title>{_xml(text)}</title>" if _shown(text) != text else ""
    return f'{whole}<text x="{round(cell.x)}" y="{round(cell.y)}">{_xml(_shown(text))}</text>'


def _drawn(shape: Shape, cell: Cell) -> str:
    x, y, width, height = round(cell.x - cell.width / 2), round(cell.top), round(cell.width), round(cell.height)
    if shape.kind == "router":
        middle, right, bottom = y + height // 2, x + width, y + height
        inner, outer = x + SLANT, right - SLANT
        points = f"{x},{middle} {inner},{y} {outer},{y} {right},{middle} {outer},{bottom} {inner},{bottom}"
        outline = f'<polygon points="{points}"/>'
    else:
        round_by = {"start": height // 2, "mark": height // 2, "step": 4}[shape.kind]
        outline = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_by}"/>'
    kind = f"{shape.kind} start" if shape.is_start and shape.kind != "start" else shape.kind
    return f'<g class="node {kind}">{outline}{_text(shape.text, cell)}</g>'
