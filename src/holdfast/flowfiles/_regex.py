"""Regular expressions whose cost is bounded: a Pike machine, so no pattern can make it backtrack for ever.

The pattern language is Python's without what needs backtracking: no backreferences, no look-around, no conditional groups.
The standard parser reads the pattern; what it found is compiled to a small program that every character is fed through once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from holdfast.flowfiles._budget import Budget

MAX_PROGRAM = 2_000
"""Instructions of a compiled pattern; counted repeats are written out."""

Test: TypeAlias = Callable[[str], bool]
Instruction: TypeAlias = tuple[Any, ...]
# ("char", test) · ("split", first, second) · ("jump", to) · ("save", slot) · ("at", kind) · ("match",)
Groups: TypeAlias = tuple[int | None, ...]

_parser: Any = re._parser  # type: ignore[attr-defined]  # the only reader of Python's patterns there is
_CATEGORIES: dict[str, Test] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_NOT_DIGIT": lambda c: not c.isdecimal(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda c: not c.isspace(),
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
    "CATEGORY_NOT_WORD": lambda c: not (c.isalnum() or c == "_"),
}


def search(pattern: str, text: str, budget: Budget) -> tuple[str, str | None] | None:
    """The first match in a text: the whole of it, and its first group. None when nothing matches.

    Raises ValueError for a pattern that cannot be used, and whatever `budget` raises when the work is too much.
    """
    found = _Machine(compile_pattern(pattern), text, budget).run()
    if found is None:
        return None
    start, end, inner_start, inner_end = found
    inner = None if inner_start is None or inner_end is None else text[inner_start:inner_end]
    return text[start:end], inner


def has_group(pattern: str) -> bool:
    """Whether a pattern that compiles has a group to extract."""
    return any(instruction[:2] == ("save", 2) for instruction in compile_pattern(pattern))


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> tuple[Instruction, ...]:
    """The program of a pattern. Raises ValueError that says what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape is the pattern's own business
            parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} cannot be read: {error}") from error
    compiler = _Compiler(parsed.state.flags)
    compiler.emit("save", 0)
    compiler.sequence(parsed)
    compiler.emit("save", 1)
    compiler.emit("match")
    return tuple(compiler.program)


class _Compiler:
    """Writes the program of a parsed pattern."""

    def __init__(self, flags: int) -> None:
        self.program: list[Instruction] = []
        self.flags = flags

    def emit(self, *instruction: Any) -> int:
        if len(self.program) >= MAX_PROGRAM:
            raise ValueError("the pattern is too large; use smaller repeat counts")
        self.program.append(instruction)
        return len(self.program) - 1

    def sequence(self, parts: Any) -> None:
        for kind, value in parts:
            writer = getattr(self, f"_{str(kind).lower()}", None)
            if writer is None:
                raise ValueError(f"patterns may not use {str(kind).lower()} (look-around, backreferences, conditions)")
            writer(value)

    def _char(self, test: Test) -> None:
        self.emit("char", test)

    def _literal(self, code: int) -> None:
        self._char(_same(chr(code), self.flags))

    def _not_literal(self, code: int) -> None:
        same = _same(chr(code), self.flags)
        self._char(lambda c: not same(c))

    def _any(self, _: object) -> None:
        self._char((lambda c: True) if self.flags & re.DOTALL else (lambda c: c != "\n"))

    def _in(self, items: Any) -> None:
        self._char(_one_of(items, self.flags))

    def _at(self, kind: object) -> None:
        name = str(kind)
        if self.flags & re.MULTILINE and name in ("AT_BEGINNING", "AT_END"):
            name += "_LINE"
        self.emit("at", name)

    def _branch(self, value: Any) -> None:
        jumps = []
        *firsts, last = value[1]
        for parts in firsts:
            fork = self.emit("split", 0, 0)
            self.sequence(parts)
            jumps.append(self.emit("jump", 0))
            self.program[fork] = ("split", fork + 1, len(self.program))
        self.sequence(last)
        for jump in jumps:
            self.program[jump] = ("jump", len(self.program))

    def _subpattern(self, value: Any) -> None:
        group, on, off, parts = value
        kept, self.flags = self.flags, (self.flags | on) & ~off
        if group == 1:
            self.emit("save", 2)
        self.sequence(parts)
        if group == 1:
            self.emit("save", 3)
        self.flags = kept

    def _max_repeat(self, value: Any) -> None:
        self._repeat(*value, is_greedy=True)

    def _min_repeat(self, value: Any) -> None:
        self._repeat(*value, is_greedy=False)

    def _repeat(self, low: int, high: Any, parts: Any, *, is_greedy: bool) -> None:
        if min(int(low), MAX_PROGRAM + 1) > MAX_PROGRAM:
            raise ValueError("the pattern is too large; use smaller repeat counts")
        for _ in range(low):
            self.sequence(parts)
        if high is _parser.MAXREPEAT:
            fork = self.emit("split", 0, 0)
            self.sequence(parts)
            self.emit("jump", fork)
            self._fork(fork, is_greedy=is_greedy)
            return
        forks = []
        for _ in range(high - low):
            forks.append(self.emit("split", 0, 0))
            self.sequence(parts)
        for fork in forks:
            self._fork(fork, is_greedy=is_greedy)

    def _fork(self, fork: int, *, is_greedy: bool) -> None:
        inside, beyond = fork + 1, len(self.program)
        self.program[fork] = ("split", inside, beyond) if is_greedy else ("split", beyond, inside)


class _Machine:
    """Feeds a text through a program; every thread of it is at one instruction, earlier threads win."""

    def __init__(self, program: tuple[Instruction, ...], text: str, budget: Budget) -> None:
        self.program, self.text, self.budget = program, text, budget

    def run(self) -> Groups | None:
        threads: dict[int, Groups] = {}
        found: Groups | None = None
        for place in range(len(self.text) + 1):
            if found is None:
                self._follow(threads, 0, (None, None, None, None), place)
            following: dict[int, Groups] = {}
            self.budget.spend(1 + len(threads))
            for at, groups in threads.items():
                instruction = self.program[at]
                if instruction[0] == "match":
                    found = groups
                    break  # later threads are worse
                if place < len(self.text) and instruction[1](self.text[place]):
                    self._follow(following, at + 1, groups, place + 1)
            threads = following
            if not threads and found is not None:
                break
        return found

    def _follow(self, threads: dict[int, Groups], start: int, groups: Groups, place: int) -> None:
        """Add every instruction that needs a character and can be reached from one without reading any."""
        ahead, seen = [(start, groups)], set()
        while ahead:
            at, groups = ahead.pop()
            if at in seen or at in threads:
                continue
            seen.add(at)
            self.budget.spend(1)
            instruction = self.program[at]
            if instruction[0] in ("char", "match"):
                threads[at] = groups
            else:
                ahead.extend(self._step(instruction, at, groups, place))

    def _step(self, instruction: Instruction, at: int, groups: Groups, place: int) -> Iterator[tuple[int, Groups]]:
        kind = instruction[0]
        if kind == "split":  # the last one added is followed first
            yield instruction[2], groups
            yield instruction[1], groups
        elif kind == "jump":
            yield instruction[1], groups
        elif kind == "save":
            slot = instruction[1]
            yield at + 1, (*groups[:slot], place, *groups[slot + 1 :])
        elif _stands(instruction[1], self.text, place):
            yield at + 1, groups


def _stands(kind: str, text: str, place: int) -> bool:
    """Whether an anchor holds."""
    before, after = text[place - 1 : place], text[place : place + 1]
    if kind in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return place == 0
    if kind == "AT_BEGINNING_LINE":
        return before in ("", "\n")
    if kind == "AT_END":
        return place == len(text) or text[place:] == "\n"
    if kind == "AT_END_LINE":
        return after in ("", "\n")
    if kind == "AT_END_STRING":
        return place == len(text)
    at_boundary = _is_word(before) != _is_word(after)
    return at_boundary if kind == "AT_BOUNDARY" else not at_boundary


def _is_word(character: str) -> bool:
    return bool(character) and _CATEGORIES["CATEGORY_WORD"](character)


def _same(character: str, flags: int) -> Test:
    if flags & re.IGNORECASE:
        folded = character.lower()
        return lambda c: c.lower() == folded
    return lambda c: c == character


def _one_of(items: Any, flags: int) -> Test:
    """The test of a set like `[a-z\\d]`."""
    is_negated = str(items[0][0]) == "NEGATE"
    tests = [_set_test(str(kind), value, flags) for kind, value in items[1 if is_negated else 0 :]]
    return lambda c: any(test(c) for test in tests) != is_negated


def _set_test(kind: str, value: Any, flags: int) -> Test:
    if kind == "CATEGORY":
        return _CATEGORIES[str(value)]
    if kind == "LITERAL":
        return _same(chr(value), flags)
    low, high = value
    if flags & re.IGNORECASE:
        return lambda c: any(low <= ord(form) <= high for form in (c.lower()[:1] or c, c.upper()[:1] or c))
    return lambda c: low <= ord(c) <= high
