from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "gen_docs.py"


@pytest.fixture
def gen_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_docs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_say_what_the_code_says(gen_docs: ModuleType) -> None:
    assert gen_docs.stale_pages() == [], "run `make docs`"


def test_a_stale_page_is_named_with_the_command_that_renews_it(
    gen_docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gen_docs, "PAGES", {"docs/a.md": lambda: "new\n", "docs/b.md": lambda: "same\n"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("old\n")
    (tmp_path / "docs/b.md").write_text("same\n")

    assert gen_docs.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "docs/a.md is stale: run `make docs`\n"


def test_a_missing_page_is_stale_until_it_is_written(gen_docs: ModuleType, tmp_path: Path) -> None:
    assert gen_docs.stale_pages(tmp_path) == list(gen_docs.PAGES)
    assert gen_docs.write_pages(tmp_path) == list(gen_docs.PAGES)
    assert gen_docs.stale_pages(tmp_path) == []


def test_a_bar_inside_a_cell_does_not_break_the_table(gen_docs: ModuleType) -> None:
    assert gen_docs.table(["type"], [["str | None"]]) == "| type |\n| --- |\n| str \\| None |"
