"""Templates: `$name`, `${name.path}`, `{{name.path}}` in prompts and the like. Data only; nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.flowfiles._parts import Position

_PATH = r"[A-Za-z_][\w-]*(?:\.[\w-]+)*"
_HOLE = re.compile(
    rf"(?P<literal>\$\$)|\$(?P<name>[A-Za-z_]\w*)|\$\{{(?P<path>{_PATH})\}}|\{{\{{\s*(?P<braced>{_PATH})\s*\}}\}}"
)


class CompiledTemplate:
    """Text with holes. What looks like a hole but is none (`$5`, `{{ 1 + 1 }}`) stays as it is, and so does a name that is not
    known; `$$` is one dollar sign.
    """

    def __init__(self, text: str, at: Position | None = None) -> None:
        self.text = text
        self.at = at
        self._holes = tuple(_HOLE.finditer(text))

    @property
    def names(self) -> tuple[str, ...]:
        """The names it reads, in order of appearance."""
        paths = (_path_of(hole) for hole in self._holes)
        return tuple(dict.fromkeys(path.split(".")[0] for path in paths if path))

    def render(self, names: Mapping[str, Any]) -> str:
        """The text with every hole filled: text as it is, null as nothing, the rest as JSON.

        A part of a value that is not there is nothing too.
        """
        parts, end = [], 0
        for hole in self._holes:
            parts += [self.text[end : hole.start()], _filled(hole, names)]
            end = hole.end()
        return "".join((*parts, self.text[end:]))


def compile_template(text: str, at: Position | None = None) -> CompiledTemplate:
    """A template, ready to be rendered again and again. Any text is one."""
    return CompiledTemplate(text, at)


def read_path(value: Any, path: tuple[str, ...]) -> Any:
    """What a path leads to inside a value: keys of objects, indexes of lists. None when it leads nowhere."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10:
            value = value[int(key)] if int(key) < len(value) else None
        else:
            return None
    return value


def _filled(hole: re.Match[str], names: Mapping[str, Any]) -> str:
    path = _path_of(hole)
    if not path:
        return "$"
    first, *rest = path.split(".")
    return _written(read_path(names[first], tuple(rest))) if first in names else hole[0]


def _path_of(hole: re.Match[str]) -> str:
    return hole["name"] or hole["path"] or hole["braced"] or ""


def _written(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
