"""Where the parts of a picture go: layers from top to bottom, as few crossings as a few sweeps give, loops at the side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, field

GAP = 26.0  # between layers
SPACE = 28.0  # between neighbours in a layer
MARGIN = 24.0
SWEEPS = 8


class Cell(Struct, eq=False):
    """Something that takes room: a shape, a label, or the place where a long line passes a layer."""

    width: float = 8.0
    height: float = 0.0
    x: float = 0.0
    """of its middle"""
    y: float = 0.0
    """of its middle"""
    ceiling: float = 0.0
    """where its layer begins: above is room for lines to go sideways"""
    floor: float = 0.0
    """where its layer ends"""
    above: list[Cell] = field(default_factory=list)
    below: list[Cell] = field(default_factory=list)

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


class Line(Struct, eq=False):
    """What leads from one shape to another."""

    source: str
    target: str
    label: Cell | None = None
    through: list[Cell] = field(default_factory=list)
    """what it passes on its way down, its label among it"""
    lane: float | None = None
    """where it goes back up at the side, if it closes a loop"""


class Layout(Struct):
    """The size of the whole, once every cell and line has its place."""

    width: float
    height: float


def lay_out(shapes: dict[str, Cell], lines: Sequence[Line], firsts: Iterable[str]) -> Layout:
    """Give every cell and line its place. Layers are counted from `firsts`; the same input gives the same picture."""
    order, loops = _walk(shapes, lines, firsts)
    down = [line for line in lines if line not in loops]
    rows = _rows(shapes, down, _ranks(order, down))
    _untangle(rows)
    _spread(rows)
    height = MARGIN
    for row in rows:
        tall = max(cell.height for cell in row)
        for cell in row:
            cell.y, cell.ceiling, cell.floor = height + tall / 2, height, height + tall
        height += tall + GAP
    left = min((cell.x - cell.width / 2 for row in rows for cell in row), default=0.0) - MARGIN
    for row in rows:
        for cell in row:
            cell.x -= left
    right = max((cell.x + cell.width / 2 for row in rows for cell in row), default=0.0)
    return Layout(_lanes(shapes, [line for line in lines if line in loops], right) + MARGIN, height - GAP + MARGIN)


def _walk(shapes: Iterable[str], lines: Sequence[Line], firsts: Iterable[str]) -> tuple[list[str], set[Line]]:
    """An order in which lines lead forward, and the lines that do not: those that close a loop."""
    leaving: dict[str, list[Line]] = {key: [] for key in shapes}
    for line in lines:
        leaving[line.source].append(line)
    done: dict[str, None] = {}
    loops: set[Line] = set()
    for first in (*firsts, *leaving):
        trail: dict[str, Iterator[Line]] = {} if first in done else {first: iter(leaving[first])}
        while trail:
            key = next(reversed(trail))
            ahead = next(trail[key], None)
            if ahead is None:
                trail.pop(key)
                done[key] = None
            elif ahead.target in trail:
                loops.add(ahead)
            elif ahead.target not in done:
                trail[ahead.target] = iter(leaving[ahead.target])
    return list(reversed(done)), loops


def _ranks(order: Sequence[str], down: Sequence[Line]) -> dict[str, int]:
    """Each shape's layer: one more than the lowest of what leads to it."""
    ranks = dict.fromkeys(order, 0)
    leaving: dict[str, list[str]] = {key: [] for key in order}
    for line in down:
        leaving[line.source].append(line.target)
    for key in order:
        for target in leaving[key]:
            ranks[target] = max(ranks[target], ranks[key] + 1)
    return ranks


def _rows(shapes: dict[str, Cell], down: Sequence[Line], ranks: dict[str, int]) -> list[list[Cell]]:
    """The cells of every layer. Shapes have the even ones; between them is room for labels, so that nothing overlaps."""
    rows: list[list[Cell]] = [[] for _ in range(2 * max(ranks.values(), default=0) + 1)]
    for key, cell in shapes.items():
        rows[2 * ranks[key]].append(cell)
    for line in down:
        first, last = 2 * ranks[line.source] + 1, 2 * ranks[line.target]
        line.through = [Cell() for _ in range(first, last)]
        if line.label is not None:
            line.through[0] = line.label
        for row, cell in enumerate(line.through, first):
            rows[row].append(cell)
        chain = [shapes[line.source], *line.through, shapes[line.target]]
        for upper, lower in pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
    return [row for row in rows if row]


def _middle(cell: Cell, others: Sequence[Cell]) -> float:
    return sum(other.x for other in others) / len(others) if others else cell.x


def _untangle(rows: list[list[Cell]]) -> None:
    """Order each layer so that fewer lines cross: everything near the middle of what it is connected to."""
    for row in rows:
        _number(row)
    for sweep in range(SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = {cell: _middle(cell, cell.below if sweep % 2 else cell.above) for cell in row}
            row.sort(key=wanted.__getitem__)
            _number(row)


def _number(row: list[Cell]) -> None:
    for place, cell in enumerate(row):
        cell.x = place - (len(row) - 1) / 2


def _spread(rows: list[list[Cell]]) -> None:
    """Move the cells of each layer below and above what they are connected to, as far as their neighbours let them."""
    for row in rows:
        _settle(row, [cell.x for cell in row])
    for sweep in range(SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            _settle(row, [_middle(cell, cell.below if sweep % 2 else cell.above) for cell in row])


def _settle(row: list[Cell], wanted: list[float]) -> None:
    """Halfway between pushing neighbours right and pushing them left: both keep the distances, so their mean does."""
    apart = [(a.width + b.width) / 2 + SPACE for a, b in pairwise(row)]
    pushed_right, pushed_left = list(wanted), list(wanted)
    for place, distance in enumerate(apart):
        pushed_right[place + 1] = max(wanted[place + 1], pushed_right[place] + distance)
    for place, distance in reversed(list(enumerate(apart))):
        pushed_left[place] = min(wanted[place], pushed_left[place + 1] - distance)
    for cell, right, left in zip(row, pushed_right, pushed_left, strict=True):
        cell.x = (right + left) / 2


def _lanes(shapes: dict[str, Cell], loops: list[Line], right: float) -> float:
    """Give each line that goes back up a lane of its own, short ones inside. Returns where the last one ends."""
    for line in sorted(loops, key=lambda line: shapes[line.source].y - shapes[line.target].y):
        line.lane = right + SPACE
        right = line.lane
        if line.label is not None:
            line.label.x = right + 8 + line.label.width / 2
            line.label.y = (shapes[line.source].y + shapes[line.target].y) / 2
            right += 8 + line.label.width
    return right
