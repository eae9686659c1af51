"""How a project serves its queue: `holdfast.toml` < what was changed while serving < environment < flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.errors import ConfigurationError, UsageError
from holdfast.ports import Caps
from holdfast.service._worker import WorkerOptions

SETTINGS_FILE = "holdfast.toml"
PLACES, TOTAL, OUTPUT = "HOLDFAST_WORKER_PLACES", "HOLDFAST_CAPS_TOTAL", "HOLDFAST_OUTPUT_BYTES"
KINDS = ("flow", "executor", "agent")
CHANGED = "settings.json"
"""Beside the file, which is people's own and is never written: what was changed on the page goes over it."""


class Changed(Struct, frozen=True, forbid_unknown_fields=True):
    """What was changed while serving."""

    places: Annotated[int, Meta(ge=1)]
    caps: Caps


def read_settings(home: Path, environ: Mapping[str, str] | None = None) -> WorkerOptions:
    """What the file in a project's home and the environment say. Raises ConfigurationError, naming the key, if that cannot be."""
    environ = os.environ if environ is None else environ
    path = home / SETTINGS_FILE
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    _check_keys(path, told, "", ("worker", "caps", "agents", "hooks", "webhooks"))
    worker, caps = _table(path, told, "worker"), _table(path, told, "caps")
    _check_keys(path, worker, "worker.", ("places", "output_bytes"))
    _check_keys(path, caps, "caps.", ("total", *KINDS))
    by_use = {
        f"{kind}:{name}": _count(f"{path}: caps.{kind}.{name}", number)
        for kind in KINDS
        for name, number in _table(path, caps, kind).items()
    }
    changed = _read_changed(home)
    if changed is not None:
        worker, caps, by_use = {"places": changed.places}, {"total": changed.caps.total}, dict(changed.caps.by_use)
    places = environ.get(PLACES, worker.get("places", WorkerOptions().places))
    output = environ.get(OUTPUT, worker.get("output_bytes", WorkerOptions().output_bytes))
    total = environ.get(TOTAL, caps.get("total"))
    return WorkerOptions(
        caps=Caps(None if total is None else _count(f"caps.total or {TOTAL}", total), by_use),
        places=max(_count(f"worker.places or {PLACES}", places), 1),
        output_bytes=_count(f"worker.output_bytes or {OUTPUT}", output, "bytes"),
    )


def with_flags(options: WorkerOptions, places: int | None, caps: list[str]) -> WorkerOptions:
    """The options with what flags say: `total=4`, `flow:deploy=1`. Raises UsageError for a cap that is none."""
    total, by_use = options.caps.total, dict(options.caps.by_use)
    for text in caps:
        use, equals, number = text.rpartition("=")
        if not equals or not number.isdecimal() or not (use == "total" or _is_use(use)):
            raise UsageError(f"{text!r} is no cap; write total=4, flow:NAME=1, executor:NAME=2 or agent:NAME=1")
        if use == "total":
            total = int(number)
        else:
            by_use[use] = int(number)
    return replace(options, caps=Caps(total, by_use), places=places or options.places)


def write_settings(home: Path, options: WorkerOptions) -> None:
    """Keep places and caps for those who serve the queue from now on. Raises UsageError for a cap that is none."""
    for use in options.caps.by_use:
        if not _is_use(use):
            raise UsageError(f"{use!r:.80} can have no cap; write flow:NAME, executor:NAME or agent:NAME")
    aside = home / f"{CHANGED}.new"
    try:
        aside.write_bytes(msgspec.json.encode(Changed(options.places, options.caps)))
        os.replace(aside, home / CHANGED)
    except OSError as error:
        raise ConfigurationError(f"{home / CHANGED} cannot be written: {error.strerror or error}") from error


def changed_at(home: Path) -> tuple[int, int] | None:
    """When `write_settings` was last called, as far as others can tell; None if never."""
    try:
        found = (home / CHANGED).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _read_changed(home: Path) -> Changed | None:
    path = home / CHANGED
    try:
        return msgspec.json.decode(path.read_bytes(), type=Changed)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; remove it to go by {SETTINGS_FILE} alone") from error


def _is_use(use: str) -> bool:
    kind, _, name = use.partition(":")
    return kind in KINDS and bool(name)


def _table(path: Path, told: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = told.get(key, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: {key} must be a table, not {found!r}")
    return found


def _check_keys(path: Path, told: Mapping[str, Any], prefix: str, known: tuple[str, ...]) -> None:
    for key in told:
        if key not in known:
            raise ConfigurationError(f"{path}: there is no setting {prefix}{key}; there are: {', '.join(known)}")


def _count(where: str, value: Any, what: str = "jobs") -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal():
        raise ConfigurationError(f"{where} must be a number of {what}, not {value!r}")
    return int(text)
