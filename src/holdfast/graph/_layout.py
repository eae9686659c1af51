"""Where the parts of a picture go: layers from top to bottom, as few crossings as a few sweeps give, loops at the side."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, field

GAP = 28.0  # between layers
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
    slant: float = 0.0
    """how far its corners are cut off sideways"""
    is_outermost: bool = False
    """whether nothing but lines is to the right of it in its layer"""
    above: list[Cell] = field(default_factory=list)
    below: list[Cell] = field(default_factory=list)

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2

    def right(self, away: float = 0.0) -> float:
        """Where its outline is on the right, so far away from its middle line."""
        return self.x + self.width / 2 - self.slant * abs(away) / (self.height / 2 or 1)


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
        tall = max((cell.height for cell in row), default=0.0)
        for cell in row:
            cell.y, cell.ceiling, cell.floor = height + tall / 2, height, height + tall
        for cell in reversed(row):
            cell.is_outermost = True
            if cell.height:
                break
        height += tall + GAP
    left = min((cell.x - cell.width / 2 for row in rows for cell in row), default=0.0) - MARGIN
    for row in rows:
        for cell in row:
            cell.x -= left
    right = _lanes(rows, shapes, [line for line in lines if line in loops])
    return Layout(right + MARGIN, height - GAP + MARGIN)


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
    """The cells of every layer. Shapes have the even ones, labels those between, so that nothing overlaps.

    A line bends only where it passes a shape or a label: a layer without either has no cells, and is a wider gap.
    """
    labelled = {2 * ranks[line.source] + 1 for line in down if line.label is not None}
    rows: list[list[Cell]] = [[] for _ in range(2 * max(ranks.values(), default=0) + 1)]
    for key, cell in shapes.items():
        rows[2 * ranks[key]].append(cell)
    for line in down:
        first, last = 2 * ranks[line.source] + 1, 2 * ranks[line.target]
        passed = [row for row in range(first, last) if row % 2 == 0 or row in labelled]
        line.through = [Cell() for _ in passed]
        if line.label is not None:
            line.through[0] = line.label
        for row, cell in zip(passed, line.through, strict=True):
            rows[row].append(cell)
        chain = [shapes[line.source], *line.through, shapes[line.target]]
        for upper, lower in pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
    return rows


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


def _centre(cell: Cell, others: Sequence[Cell]) -> float:
    """The median, so that of three lines the middle one is straight."""
    return statistics.median(other.x for other in others) if others else cell.x


def _spread(rows: list[list[Cell]]) -> None:
    """Move the cells of each layer below and above what they are connected to, as far as their neighbours let them."""
    for row in rows:
        _settle(row, [cell.x for cell in row])
    for sweep in range(SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            _settle(row, [_centre(cell, cell.below if sweep % 2 else cell.above) for cell in row])


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


def _lanes(rows: list[list[Cell]], shapes: dict[str, Cell], loops: list[Line]) -> float:
    """Give each line that goes back up a lane beside what it passes, short ones inside. Returns where everything ends."""
    taken = [(cell.ceiling, cell.floor, cell.right()) for row in rows for cell in row]
    for line in sorted(loops, key=lambda line: shapes[line.source].y - shapes[line.target].y):
        top, bottom = shapes[line.target].ceiling - GAP, shapes[line.source].floor + GAP
        right = max(end for ceiling, floor, end in taken if floor > top and ceiling < bottom)
        line.lane = right = right + SPACE
        if line.label is not None:
            line.label.x = right + 8 + line.label.width / 2
            line.label.y = (shapes[line.source].y + shapes[line.target].y) / 2
            right += 8 + line.label.width
        taken.append((top, bottom, right))
    return max((end for _, _, end in taken), default=0.0)
