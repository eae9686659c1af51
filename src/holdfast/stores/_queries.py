"""SQL lives in `.sql` files beside this module: named queries, and numbered migrations."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load(engine: str, file: str = "queries.sql") -> Mapping[str, str]:
    """The named queries in a file of an engine, by name."""
    text = (resources.files("holdfast.stores") / "sql" / engine / file).read_text("utf-8")
    _, *parts = _NAME.split(text)
    return MappingProxyType({name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)})
