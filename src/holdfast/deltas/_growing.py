"""Fields that only grow, declared so: `log: Annotated[list[str], append_only]`."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct


class AppendOnly(Struct, frozen=True):
    """Marks a list, or a text, to which steps only add at the end: what was there is not looked at again."""


append_only = AppendOnly()


def growing_fields(kind: type) -> frozenset[str]:
    """The fields of a state's class that are declared append-only."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):  # an annotation that only a type checker can see
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _is_marked(hint))


def _is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(item, AppendOnly) for item in get_args(hint)[1:])
