"""Flows of a shop, for the command line to look at. Copied into a project, where it is the module `shop`."""

from __future__ import annotations

import os
import time
from typing import Any, Literal

from pydantic import Field

from holdfast import Flow, FlowState, listen, router, start


class Order(FlowState):
    items: list[dict[str, Any]] = Field(default_factory=list)
    total: float = 0.0
    note: str = ""
    tags: set[str] = Field(default_factory=set)


class Checkout(Flow[Order]):
    """Four steps; the last breaks when BROKEN is set."""

    @start()
    def read(self) -> int:
        self.state.items = [{"name": "lamp", "price": 40.0}, {"name": "\x1b[31mred\x07 \u202ebulb", "price": 4.5}]
        self.state.tags.add("new")
        return 2

    @listen(read)
    def price(self) -> float:
        self.state.total = sum(item["price"] for item in self.state.items)
        self.state.note = "long " * 2000
        return self.state.total

    @router(price)
    def check(self) -> Literal["ship", "review"]:
        return "ship" if self.state.total < 50 else "review"

    @listen("ship")
    def ship(self) -> str:
        if os.environ.get("BROKEN"):
            raise ConnectionError("the carrier does not answer\x1b[2J")
        return f"shipped for {self.state.total}"

    @listen("review")
    def review(self) -> str:
        return "held for review"


class Slow(Flow[Order]):
    """Breaks first; gone on with, it says so and waits for ever."""

    @start()
    def begin(self) -> str:
        return "begun"

    @listen(begin)
    def wait(self) -> None:
        if os.environ.get("BROKEN"):
            raise ConnectionError("not now")
        print("waiting", flush=True)  # noqa: T201 - the test reads it
        while True:
            time.sleep(0.02)  # wakes by itself: CPython can miss a signal that comes just before a wait without end


class Asking(Flow[Order]):
    """Breaks first; gone on with, it asks a question."""

    @start()
    def begin(self) -> str:
        return "begun"

    @listen(begin)
    def confirm(self) -> str:
        if os.environ.get("BROKEN"):
            raise ConnectionError("not now")
        return f"they said {self.ask('send it?')}"


class Picky(Checkout):
    """Cannot be made without an argument."""

    def __init__(self, shop: str, **options: Any) -> None:
        super().__init__(**options)
        self.shop = shop
