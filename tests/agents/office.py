"""What crews are made of that are stored: at the top level of a module, where another process finds it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, SecretStr

from holdfast import Agent, BaseTool, Task, TaskOutput, tool


class City(BaseModel):
    name: str = Field(alias="cityName")
    people: int


class Expert(Agent):
    """An agent with a field of its own."""

    field: str = "whales"


class Report(Task):
    pages: int


class Search(BaseTool):
    name: str = "search"
    description: str = "Searches."
    api_key: SecretStr | None = None
    max_usage_count: int | None = 3

    def _run(self, question: str = "") -> str:
        return f"found with {self.api_key.get_secret_value() if self.api_key else 'nothing'}"


@tool(max_usage_count=5)
def look(place: str = "here") -> str:
    """Looks somewhere."""
    return f"looked {place}"


def fine(output: TaskOutput) -> tuple[bool, Any]:
    return True, output


def always(output: TaskOutput | None) -> bool:
    return True


def noted(output: TaskOutput) -> None:
    """A callback."""
