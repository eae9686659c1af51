"""What a command did, before anybody decides how to say it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """What a command did: as data, as text, as an exit code."""

    data: dict[str, Any]
    lines: list[str]
    exit_code: int = 0
