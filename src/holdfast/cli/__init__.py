"""The `holdfast` command."""

from __future__ import annotations

from holdfast.cli._main import main

__all__ = ["main"]
