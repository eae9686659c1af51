"""What the python steps of the tests do."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from holdfast.errors import ContextLengthError, JobStepError, ModelAuthError, ModelUnavailableError

calls: Counter[str] = Counter()
"""How often each step that says who it is has run."""


def echo(**given: Any) -> dict[str, Any]:
    return given


def one(**given: Any) -> dict[str, int]:
    return {"n": 1}


def add(n: int = 0, **given: Any) -> dict[str, int]:
    return {"n": n + 1}


def count(who: str, **given: Any) -> dict[str, Any]:
    """How often it was called so far, and with what."""
    calls[who] += 1
    return {"n": calls[who], **given}


def join(**given: Any) -> dict[str, Any]:
    return {"all": ",".join(str(value) for _, value in sorted(given.items()))}


async def slow_echo(**given: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return given


def broken(**given: Any) -> None:
    raise ValueError("it broke")


def fails_until(who: str, good: int, kind: str = "failed", **given: Any) -> dict[str, Any]:
    """Fails with a kind of error until it was called so often."""
    calls[who] += 1
    if calls[who] >= good:
        return {"n": calls[who]}
    kinds: dict[str, Exception] = {
        "transient": ModelUnavailableError("overloaded", model="m"),
        "auth": ModelAuthError("no key", model="m"),
        "context_length": ContextLengthError("too long", model="m"),
        "failed": ValueError("it broke"),
    }
    raise kinds.get(kind) or JobStepError(f"{kind}!", category=kind)


async def forever(**given: Any) -> None:
    await asyncio.Event().wait()


def list_of(n: int, **given: Any) -> dict[str, Any]:
    return {"items": list(range(n))}


def odd_breaks(item: int, **given: Any) -> dict[str, int]:
    if item % 2:
        raise ValueError(f"{item} is odd")
    return {"double": item * 2}


def review(n: int, good: int, **given: Any) -> dict[str, Any]:
    return {"ok": n >= good, "feedback": f"{n} is not enough"}


told: list[Any] = []


def tell(round: int, back: Any, **given: Any) -> dict[str, Any]:
    told.append((round, back))
    return {"n": len(told)}


class Gate:
    """Where a step stands until the test lets it go on."""

    def __init__(self) -> None:
        self._reached, self._open = asyncio.Event(), asyncio.Event()

    async def reached(self) -> None:
        await self._reached.wait()

    def open(self) -> None:
        self._open.set()

    async def go_through(self) -> None:
        self._reached.set()
        await self._open.wait()


gates: dict[str, Gate] = {}


async def through(gate: str, **given: Any) -> dict[str, Any]:
    await gates[gate].go_through()
    return {"n": 1}


async def fails_behind(gate: str, who: str, **given: Any) -> dict[str, Any]:
    """Fails the first time, once it may."""
    await gates[gate].go_through()
    return fails_until(who, 2)


stuck = threading.Event()


def block(**given: Any) -> None:
    stuck.wait(20)


def reveal(key: str, **given: Any) -> None:
    raise ValueError(f"the key is {key}")
