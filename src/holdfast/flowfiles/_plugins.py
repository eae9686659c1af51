"""Executors that installed packages add, through the entry point group `holdfast.executors`.

The entry point's name is what a flow file says (`executor: NAME`); its value is an `ExecutorPlugin` in a module that is cheap to
import. The code that does the work is named by `run`, and imported by the engine when a step needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Literal

from msgspec import Struct

from holdfast.flowfiles._shapes import Anything, Flag, Formula, Key, Many, Number, Prompt, Shape, Text, Whole

GROUP = "holdfast.executors"
OptionType = Literal["text", "template", "expression", "number", "whole", "bool", "list", "any"]
_SHAPES: Mapping[str, Shape] = {
    "text": Text(), "template": Prompt(), "expression": Formula(), "number": Number(), "whole": Whole(), "bool": Flag(),
    "list": Many(Anything()), "any": Anything(),
}  # fmt: skip


class Option(Struct, frozen=True):
    """A key that steps with this executor may have."""

    type: OptionType = "any"
    description: str = ""
    required: bool = False


class ExecutorPlugin(Struct, frozen=True):
    """What a package says about its executor."""

    run: str
    """`module:object` of the code, imported on first use by whoever runs jobs"""
    options: Mapping[str, Option] = {}
    description: str = ""

    def keys(self) -> dict[str, Key]:
        """Its options, as keys of a step."""
        return {
            name: Key(_SHAPES[option.type], option.description, is_required=option.required)
            for name, option in self.options.items()
        }


def plugin_names() -> tuple[str, ...]:
    """The names of installed executors, without importing any of them."""
    return tuple(sorted({point.name for point in metadata.entry_points(group=GROUP)}))


def find_plugin(name: str) -> ExecutorPlugin | None:
    """An installed executor; None if no package has one of that name. Raises ImportError when its package is broken."""
    point = next(iter(metadata.entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    try:
        found = point.load()
    except Exception as error:  # whatever somebody else's module does when it is imported
        raise ImportError(f"the executor {name} ({point.value}) cannot be imported: {error}") from error
    if not isinstance(found, ExecutorPlugin):
        raise ImportError(f"the executor {name} ({point.value}) is no holdfast.flowfiles.ExecutorPlugin")
    return found
