"""Hooks: telling others what happens to jobs, by HTTP or by a command, at least once.

A receiver needs `verify` only. Imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.hooks._addresses import Address as Address
    from holdfast.hooks._addresses import Reach as Reach
    from holdfast.hooks._addresses import read_address as read_address
    from holdfast.hooks._addresses import show_target as show_target
    from holdfast.hooks._deliverer import Deliverer as Deliverer
    from holdfast.hooks._deliverer import Rhythm as Rhythm
    from holdfast.hooks._deliverer import prune_outbox as prune_outbox
    from holdfast.hooks._sending import Patience as Patience
    from holdfast.hooks._sending import Sender as Sender
    from holdfast.hooks._settings import Hook as Hook
    from holdfast.hooks._settings import HookSettings as HookSettings
    from holdfast.hooks._settings import check_webhook as check_webhook
    from holdfast.hooks._settings import read_hooks as read_hooks
    from holdfast.hooks._signing import project_key as project_key
    from holdfast.hooks._signing import signed as signed
    from holdfast.hooks._signing import verify as verify

_WHERE = {
    "Address": "_addresses",
    "Deliverer": "_deliverer",
    "Hook": "_settings",
    "HookSettings": "_settings",
    "Patience": "_sending",
    "Reach": "_addresses",
    "Rhythm": "_deliverer",
    "Sender": "_sending",
    "check_webhook": "_settings",
    "project_key": "_signing",
    "prune_outbox": "_deliverer",
    "read_address": "_addresses",
    "read_hooks": "_settings",
    "show_target": "_addresses",
    "signed": "_signing",
    "verify": "_signing",
}

__all__ = [
    "Address",
    "Deliverer",
    "Hook",
    "HookSettings",
    "Patience",
    "Reach",
    "Rhythm",
    "Sender",
    "check_webhook",
    "project_key",
    "prune_outbox",
    "read_address",
    "read_hooks",
    "show_target",
    "signed",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.hooks' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.hooks.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
