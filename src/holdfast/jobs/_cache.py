"""Results of earlier executions: used again where a step says so, and everything that shapes it is the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.deltas import encode_plain, plain
from holdfast.errors import NotStorableError
from holdfast.jobs._calls import Call
from holdfast.logs import get_logger

log = get_logger("jobs")
NEVER = frozenset({"external", "poll"})


class Kept(Struct, frozen=True):
    """One result."""

    outputs: dict[str, Any]
    at_us: int
    until_us: int | None = None


class ResultCache:
    """Results in files of a directory, one each, written whole or not at all. Several processes may share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def get(self, key: str, now_us: int) -> dict[str, Any] | None:
        """The outputs under a key, if they are there and not too old."""
        try:
            kept = msgspec.json.decode(self._file(key).read_bytes(), type=Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("a cached result cannot be read and is made anew: %s", error)
            return None
        return None if kept.until_us is not None and kept.until_us <= now_us else kept.outputs

    async def put(self, key: str, outputs: dict[str, Any], now_us: int, ttl_us: int | None) -> None:
        """Keep outputs under a key. One that cannot be written is only missing next time."""
        until = None if ttl_us is None else now_us + ttl_us
        written = self._file(key).with_suffix(f".{os.getpid()}")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            written.write_bytes(msgspec.json.encode(Kept(outputs, now_us, until)))
            written.replace(self._file(key))
        except OSError as error:
            log.warning("a result could not be cached: %s", error)

    def _file(self, key: str) -> Path:
        return self._directory / key

    def clear(self) -> int:
        """Forget everything. Returns how many results there were."""
        found = list(self._directory.glob("*")) if self._directory.is_dir() else []
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)


def key_of(call: Call) -> str:
    """Under which key a call's result is kept: executor, inputs, settings, the flow's version, `key_extra`; empty if never."""
    step = call.step
    if step.kind in NEVER or step.cache is None:
        return ""
    scope = call.scope
    settings = {one.name: scope.variables.get(one.name) for one in scope.flow.config if not one.sensitive}
    try:
        shaped = encode_plain(plain({"inputs": call.inputs, "items": list(call.items), "settings": settings}))
    except NotStorableError:
        return ""
    defaults = {"llm": scope.engine.default_model, "agent": scope.engine.default_agent}.get(step.kind, "")
    by = msgspec.json.encode((step.name, call.executor, defaults, scope.flow.digest, step.cache.key_extra))
    return hashlib.sha256(by + b"\0" + shaped).hexdigest()
