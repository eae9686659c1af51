"""What is stored beside a run: who holds it, and what it was started with."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.checkpoints._owner import Owner
from holdfast.graph import Graph


class Definition(Struct, frozen=True):
    """What is stored beside a run before anything else is: who holds it, and the graph it was started with."""

    owner: Owner
    graph: Graph
    made_by: str = ""
    """the module and class of its program"""
    inputs: tuple[str, ...] = ()
    """the names of its inputs; their values are in its first row, which a crash may have prevented"""
    entity: dict[str, Any] = {}
    """what was kicked off, if another process can make it again from that"""
