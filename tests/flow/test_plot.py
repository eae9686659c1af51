"""Pictures of flows, as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from holdfast import Runtime
from holdfast.events import FlowPlotEvent
from holdfast.flow import Flow, listen, start


class Pair(Flow[dict[str, Any]]):
    @start()
    def first(self) -> None: ...

    @listen(first)
    def second(self) -> None: ...


def test_a_flow_as_mermaid() -> None:
    assert Pair.to_mermaid() == (
        "flowchart TD\n"
        '    n0(["first"]):::start\n'
        '    n1["second"]\n'
        "    n0 --> n1\n"
        "    classDef start stroke-width:3px\n"
    )


def test_plot_writes_what_the_files_name_asks_for_under_the_flows_own_name(tmp_path: Path, runtime: Runtime) -> None:
    flow = Pair(name="A & B", runtime=runtime)
    assert ElementTree.parse(flow.plot(tmp_path / "flow.SVG")).getroot()[0].text == "A & B"
    assert flow.plot(tmp_path / "flow.mmd").read_text() == Pair.to_mermaid()
    assert "<title>A &amp; B</title>" in flow.plot(str(tmp_path / "flow.html")).read_text()
    assert flow.plot(tmp_path / "picture").read_text().startswith("<!doctype html>")


def test_plot_writes_flow_html_here_when_told_nothing(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Pair(runtime=runtime).plot() == Path("flow.html")
    assert (tmp_path / "flow.html").exists()


def test_plot_tells_of_it(tmp_path: Path, runtime: Runtime) -> None:
    told: list[FlowPlotEvent] = []
    runtime.event_bus.on(FlowPlotEvent)(lambda source, event: told.append(event))
    path = Pair(runtime=runtime).plot(tmp_path / "flow.svg")
    runtime.event_bus.flush()
    assert [(event.flow_name, event.path) for event in told] == [("Pair", str(path))]


def test_plot_leaves_the_old_picture_and_nothing_else_when_it_cannot_finish(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "flow.svg"
    path.write_text("old")

    def refuse(self: Path, target: Path) -> None:
        assert "</svg>" in self.read_text()  # complete before it takes the old one's place
        raise OSError("no")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        Pair(runtime=runtime).plot(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
