"""`import holdfast`: everything it promises, nothing before it is used."""

from __future__ import annotations

import pytest
from tests.runs.support import run_script

import holdfast


def test_every_public_name_is_there() -> None:
    assert len(set(holdfast.__all__)) == len(holdfast.__all__)
    assert [name for name in holdfast.__all__ if getattr(holdfast, name, None) is None] == []
    assert dir(holdfast) == sorted(holdfast.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Runtme'"):
        getattr(holdfast, "Runtme")  # noqa: B009


def test_the_bus_is_the_one_of_the_default_runtime() -> None:
    assert holdfast.event_bus is holdfast.default_runtime().event_bus


def test_importing_loads_nothing_heavy_until_a_name_is_used() -> None:
    done = run_script(
        """
    import sys
    import holdfast
    print([name for name in ("asyncio", "typer", "rich", "holdfast.runtime", "holdfast.events") if name in sys.modules])
    holdfast.Runtime
    print("asyncio" in sys.modules, "typer" in sys.modules, "rich" in sys.modules)
    """
    )
    assert (done.stdout, done.stderr) == ("[]\nTrue False False\n", "")


def test_windows_is_refused_with_a_sentence() -> None:
    done = run_script("import sys\nsys.platform = 'win32'\nimport holdfast\n")
    assert done.returncode == 1
    assert "PlatformError: Holdfast does not run on Windows" in done.stderr
    assert done.stderr.rstrip().endswith("Use WSL.")
