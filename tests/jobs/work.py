"""What the python steps of the tests do."""

from __future__ import annotations

import asyncio
from typing import Any


def echo(**given: Any) -> dict[str, Any]:
    return given


def one(**given: Any) -> dict[str, int]:
    return {"n": 1}


def add(n: int = 0, **given: Any) -> dict[str, int]:
    return {"n": n + 1}


async def slow_echo(**given: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return given


def broken(**given: Any) -> None:
    raise ValueError("it broke")
