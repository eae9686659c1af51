"""What is said about a flow file: each finding has a place, a weight and, where there is one, a fix."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.errors import FlowFileError
from holdfast.flowfiles._parts import Position

MAX_FINDINGS = 200
"""More than these help nobody; a note says that there are more."""
MAX_SHOWN = 20
"""In the text of an error; `findings` has all of them."""


class Finding(Struct, frozen=True):
    """One thing about a flow file: an error (it does not load), a warning (it loads, and is probably not meant) or a note."""

    severity: Literal["error", "warning", "note"]
    code: str
    """what kind of finding it is, for programs"""
    at: Position
    message: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.at}: {self.severity}: {self.message}{f'; {self.fix}' if self.fix else ''}"


class Report:
    """Collects findings, each once, in the order of their places."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    def add(self, finding: Finding) -> None:
        if len(self._found) < MAX_FINDINGS or (finding.severity == "error" and not self.has_errors):
            self._found[finding] = None

    def error(self, code: str, at: Position, message: str, *, fix: str = "") -> None:
        self.add(Finding("error", code, at, message, fix))

    def warning(self, code: str, at: Position, message: str, *, fix: str = "") -> None:
        self.add(Finding("warning", code, at, message, fix))

    def note(self, code: str, at: Position, message: str, *, fix: str = "") -> None:
        self.add(Finding("note", code, at, message, fix))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything found, sorted by file, line and column."""
        return tuple(sorted(self._found, key=lambda one: (one.at.file, one.at.line, one.at.column)))

    @property
    def has_errors(self) -> bool:
        return any(one.severity == "error" for one in self._found)

    def raise_errors(self) -> None:
        """Raise FlowFileError with all of them, if there is one."""
        errors = [one for one in self.findings if one.severity == "error"]
        if errors:
            more = [f"and {len(errors) - MAX_SHOWN} more"] if len(errors) > MAX_SHOWN else []
            shown = [str(one).replace(": error:", ":", 1) for one in errors[:MAX_SHOWN]]
            raise FlowFileError("\n".join(shown + more), findings=self.findings)
