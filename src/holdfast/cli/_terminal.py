"""What is shown, so that it fits and never breaks a terminal: values, sizes, ages. And reading what people type."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from holdfast.deltas import encode_plain
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

MAX_LINES = 200
"""A longer state is cut, with a note."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}

Styled = tuple[str, str]
"""A piece of text and its style on a terminal."""


# -- text ----------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Text with everything that could move a cursor, change a colour or turn the direction of writing spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(value: Any, width: int) -> str:
    """A plain value in one line, cut to a width with a note of how much there is."""
    text = _leading(value, width + 1)
    if len(text) <= width:
        return text
    note = (
        f"… ({len(value):,} {'characters' if isinstance(value, str) else 'items'})"
        if hasattr(value, "__len__")
        else "…"
    )
    return text[: max(width - len(note), 8)] + note


def outline(value: dict[str, Any], width: int) -> Iterator[str]:
    """The lines of a state: what fits in one line is in one, the rest is spread out below its name."""
    lines = list(islice(_spread(value.items(), "", width), MAX_LINES + 1))
    yield from lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        yield f"… there is more: --json shows all of it ({len(encode_plain(value)):,} bytes)"


def _spread(items: Iterable[tuple[Hashable, Any]], indent: str, width: int) -> Iterator[str]:
    for key, item in items:
        name = indent + printable(key if isinstance(key, str) else f"[{key!r}]")
        room = max(width - len(name) - 2, 20)
        inner = _inside(item)
        if not inner or len(_leading(item, room + 1)) <= room:
            yield f"{name}: {shorten(item, room)}"
        else:
            yield f"{name}:"
            yield from _spread(inner, indent + "  ", width)


def _inside(value: Any) -> Iterable[tuple[Hashable, Any]]:
    if isinstance(value, dict):
        return value.items()
    return list(enumerate(value)) if isinstance(value, list | tuple) else ()


def _leading(value: Any, length: int) -> str:
    """The beginning of a value's text, without writing all of it."""
    text = ""
    for piece in _pieces(value, length):
        text += piece
        if len(text) >= length:
            break
    return text


def _pieces(value: Any, length: int) -> Iterator[str]:
    if isinstance(value, str):
        yield printable(json.dumps(value[:length], ensure_ascii=False))
    elif isinstance(value, dict):
        yield from _enclosed("{", (_pair(key, item, length) for key, item in value.items()), "}")
    elif isinstance(value, list | tuple):
        yield from _enclosed("[", (_pieces(item, length) for item in value), "]")
    elif isinstance(value, set | frozenset):
        yield from _enclosed("{", (_pieces(item, length) for item in sorted(value, key=encode_plain)), "}")
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    else:
        yield printable(repr(value[:length]) if isinstance(value, bytes) else str(value))


def _pair(key: Hashable, item: Any, length: int) -> Iterator[str]:
    yield from _pieces(key, length)
    yield ": "
    yield from _pieces(item, length)


def _enclosed(left: str, parts: Iterable[Iterator[str]], right: str) -> Iterator[str]:
    yield left
    for number, part in enumerate(parts):
        if number:
            yield ", "
        yield from part
    yield right


# -- numbers -------------------------------------------------------------------------------------------------------


def show_size(size: int) -> str:
    """Bytes as people read them."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB"


def show_age(age_us: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(age_us, 0) // 1_000_000
    for unit, length in reversed(_UNITS.items()):
        if unit != "w" and seconds >= length:
            return f"{seconds // length}{unit}"
    return "0s"


def show_time(at_us: int) -> str:
    """A moment, to the second, in UTC."""
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso_time(at_us: int) -> str:
    """A moment, exactly, for programs."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at_us)).isoformat()


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `12h`, `7d`, `2w`. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)\s*([smhdw])", text.strip().lower())
    if match is None:
        raise UsageError(f"{text!r} is not a duration; write 90s, 15m, 12h, 7d or 2w")
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def parse_size(text: str) -> int:
    """`500MB`, `10GB`, or bytes. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)\s*([kmgt]?b?)", text.strip().lower())
    if match is None or match[2] not in _SIZES:
        raise UsageError(f"{text!r} is not a size; write 500MB, 10GB, or a number of bytes")
    return int(float(match[1]) * _SIZES[match[2]])


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Labels as they are typed, `name=value`. Raises UsageError for anything else."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} is no label; write --label name=value")
        labels[name] = value
    return labels


# -- output --------------------------------------------------------------------------------------------------------


def echo_json(value: object) -> None:
    """Plain data as JSON, in ASCII: whatever it holds, a terminal takes it for text."""
    typer.echo(json.dumps(json.loads(encode_plain(value)), indent=2))


class Unwritten(io.TextIOWrapper):
    """Takes the place of a stdout that cannot be written to: it writes nowhere, and knows what went wrong."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(open(os.devnull, "wb"), encoding="utf-8")  # noqa: SIM115 - open until the end


@contextmanager
def may_go_unseen() -> Iterator[None]:
    """Show something that must not end the command: what cannot be written is shown to nobody, nor is anything from then on.

    That whoever read it has left, as `head` does, is fine. Anything else, a full disk say, is told when the command ends.
    """
    try:
        yield
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is buffered goes there too
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            sys.stdout = Unwritten(error)


def tell(text: str) -> None:
    """Say something on stderr, if that can be written to: nobody is left to be told that it cannot."""
    with suppress(OSError):
        typer.echo(text, err=True)


def on_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int:
    """How wide what is shown may be."""
    return max(shutil.get_terminal_size((100, 24)).columns, 40)


def console() -> Console:
    """A console that takes nothing for markup. In a pipe it has no colour and never breaks a line."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, width=None if on_terminal() else 10_000)


def echo_lines(lines: Iterable[Iterable[Styled]]) -> None:
    """Print lines of styled pieces: with colour on a terminal, without anywhere else."""
    if not on_terminal():
        for line in lines:
            typer.echo("".join(text for text, _ in line).rstrip())
        return
    from rich.text import Text

    shown = console()
    for line in lines:
        shown.print(Text.assemble(*line), soft_wrap=True)
