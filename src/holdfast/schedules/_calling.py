"""The program that calls the function of a poll: `python -m holdfast.schedules._calling module:function CURSOR`.

A process of its own, so that a function that hangs can be ended. What the function prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import sys
from typing import Any

import msgspec


def main(reference: str, cursor: str) -> None:
    """Call the function with the cursor and write what it returns as JSON."""
    with contextlib.redirect_stdout(sys.stderr):
        answer = _call(reference, msgspec.json.decode(cursor))
    sys.stdout.buffer.write(b"" if answer is None else msgspec.json.encode(answer))
    sys.stdout.buffer.flush()


def _call(reference: str, cursor: Any) -> Any:
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    answer = found(cursor)
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


if __name__ == "__main__":
    main(*sys.argv[1:])
