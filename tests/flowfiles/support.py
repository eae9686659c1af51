"""Flows written by tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from holdfast.flowfiles import Finding, FlowFile, check_flow, load_flow


class Folder:
    """A directory that flows are written to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return file

    def load(self, text: str, name: str = "x.flow.yaml") -> FlowFile:
        return load_flow(self.write(name, text))

    def findings(self, text: str | bytes, name: str = "x.flow.yaml") -> list[Finding]:
        flow, findings = check_flow(self.write(name, text))
        assert (flow is None) == any(one.severity == "error" for one in findings)
        return list(findings)

    def codes(self, text: str) -> list[str]:
        """The codes of what is found, notes left out."""
        return [one.code for one in self.findings(text) if one.severity != "note"]


def step(text: str) -> str:
    """A flow around the body of one step, `s`, whose keys are in line 3 and below."""
    return "steps:\n  s:\n" + "".join(f"    {line}\n" for line in dedent(text).strip().splitlines())
