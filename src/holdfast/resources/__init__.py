"""Resources: whatever a run holds that must not outlive it. Process trees under keepers, temporary directories, and what any
`ResourceManager` needs to share, count, end and sweep its own.

Imported on first use, so that a program that holds nothing pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.resources._directory_manager import DirectoryManager as DirectoryManager
    from holdfast.resources._directory_manager import DirectorySpec as DirectorySpec
    from holdfast.resources._entries import Limits as Limits
    from holdfast.resources._entries import PooledLease as PooledLease
    from holdfast.resources._keeper import Keeper as Keeper
    from holdfast.resources._kept import Command as Command
    from holdfast.resources._kept import KeptProcess as KeptProcess
    from holdfast.resources._listing import Listed as Listed
    from holdfast.resources._listing import list_held as list_held
    from holdfast.resources._listing import sweep_everything as sweep_everything
    from holdfast.resources._pool import PooledManager as PooledManager
    from holdfast.resources._process_manager import ProcessManager as ProcessManager
    from holdfast.resources._process_manager import ProcessSpec as ProcessSpec
    from holdfast.resources._sandbox import Sandbox as Sandbox
    from holdfast.resources._sweep import sweep_ledger as sweep_ledger
    from holdfast.resources._table import SystemProcessTable as SystemProcessTable

_WHERE = {
    "Command": "_kept",
    "DirectoryManager": "_directory_manager",
    "DirectorySpec": "_directory_manager",
    "Keeper": "_keeper",
    "KeptProcess": "_kept",
    "Limits": "_entries",
    "Listed": "_listing",
    "PooledLease": "_entries",
    "PooledManager": "_pool",
    "ProcessManager": "_process_manager",
    "ProcessSpec": "_process_manager",
    "Sandbox": "_sandbox",
    "SystemProcessTable": "_table",
    "list_held": "_listing",
    "sweep_everything": "_listing",
    "sweep_ledger": "_sweep",
}

__all__ = [
    "Command",
    "DirectoryManager",
    "DirectorySpec",
    "Keeper",
    "KeptProcess",
    "Limits",
    "Listed",
    "PooledLease",
    "PooledManager",
    "ProcessManager",
    "ProcessSpec",
    "Sandbox",
    "SystemProcessTable",
    "list_held",
    "sweep_everything",
    "sweep_ledger",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.resources' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.resources.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
