"""Resources: process trees under keepers."""

from __future__ import annotations

from holdfast.resources._keeper import Keeper
from holdfast.resources._kept import Command, KeptProcess

__all__ = ["Command", "Keeper", "KeptProcess"]
