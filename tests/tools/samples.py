"""Tools at the top level of a module, where another process finds them."""

from __future__ import annotations

import threading
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from holdfast.tools import BaseTool, tool


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


@tool
def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: the first one,
            which is needed
        b (int): the second one

    Returns:
        their sum
    """
    return a + b


@tool("Slow Move", timeout=5, max_usage_count=3)
async def move(to: Point, names: list[str] | None = None) -> dict[str, Any]:
    """Moves things.

    :param to: where to
    """
    return {"x": to.x, "names": names}


def worth_keeping(arguments: dict[str, Any], output: Any) -> bool:
    return bool(output)


class Search(BaseTool):
    name: str = "search"
    description: str = "Searches."
    site: str = "everywhere"
    options: dict[str, Any] = Field(default_factory=dict)
    api_key: SecretStr | None = None

    def _run(self, question: str) -> str:
        return f"{self.site}: {question} in {threading.current_thread().name}"


class Typed(BaseTool):
    name: str = "typed"
    description: str = "Has a schema of its own."
    args_schema: type[BaseModel] | None = Point

    async def _run(self, x: int, y: int) -> int:
        return x * y


def plain(a: int) -> int:
    """Not a tool yet."""
    return a


def is_even(output: Any) -> bool:
    return bool(output % 2 == 0)
