"""Which hooks a project has: `[hooks.NAME]` and `[webhooks]` of its `holdfast.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import ConfigurationError, UsageError
from holdfast.hooks._addresses import Reach, is_place, read_address
from holdfast.ports import HOOK, HookEvent, Subscription
from holdfast.service import SETTINGS_FILE

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Hook(Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who is told what happens to jobs: an address, or a command."""

    on: Annotated[tuple[HookEvent, ...], Meta(min_length=1)]
    flow: str = "*"
    """only of this flow; a name, or a pattern with `*`"""
    url: str = ""
    command: tuple[str, ...] = ()
    """a program and its arguments; no shell"""
    secret_env: str = ""
    """the environment variable that holds the key for signatures; the project's own key if empty"""


class _Webhooks(Struct, frozen=True, forbid_unknown_fields=True):
    allow: tuple[str, ...] = ()


class HookSettings(Struct, frozen=True):
    """Who is told, and where webhooks of jobs may go."""

    hooks: dict[str, Hook] = {}
    allow: tuple[str, ...] = ()
    """hosts and networks of our own that webhooks of jobs may reach"""

    def subscriptions(self) -> list[Subscription]:
        return [Subscription(HOOK + name, frozenset(hook.on), hook.flow) for name, hook in self.hooks.items()]


def read_hooks(home: Path) -> HookSettings:
    """What the file in a project's home says. Raises ConfigurationError, naming the key, if that cannot be."""
    path = home / SETTINGS_FILE
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    hooks = _convert(path, "hooks", told.get("hooks", {}), dict[str, Hook])
    for name, hook in hooks.items():
        if problem := _problem(name, hook):
            raise ConfigurationError(f"{path}: hooks.{name}: {problem}")
    return HookSettings(hooks, _convert(path, "webhooks", told.get("webhooks", {}), _Webhooks).allow)


def _convert(path: Path, key: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {key}: {str(error).replace('`$.', f'`{key}.')}") from error


def check_webhook(url: str, settings: HookSettings) -> None:
    """Raise UsageError if a job cannot have this address: it is none, or names a place that webhooks may not reach.

    What a name stands for is looked up when something is sent.
    """
    address = read_address(url)
    if is_place(address.host) and not Reach(settings.allow).allows(address.host, address.host):
        raise UsageError(
            f"webhooks may not reach {address.host}; if it is meant, add it to `allow` of [webhooks] in holdfast.toml"
        )


def _problem(name: str, hook: Hook) -> str:
    if not name.isprintable() or len(name) > 100 or not name:
        return "this is no name for a hook; choose a short one that can be printed"
    if bool(hook.url) == bool(hook.command):
        return "give either url or command"
    if hook.secret_env and (hook.command or not _VARIABLE.fullmatch(hook.secret_env)):
        return "secret_env names the environment variable with the key that messages to a url are signed with"
    try:
        if hook.url:
            read_address(hook.url)
    except UsageError as error:
        return f"url: {error}"
    return ""
