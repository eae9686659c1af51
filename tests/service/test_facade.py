"""`holdfast.service`: everything it promises, nothing before it is used."""

from __future__ import annotations

import pytest
from tests.runs.support import run_script

import holdfast.service


def test_every_exported_name_is_there() -> None:
    assert sorted(holdfast.service.__all__) == dir(holdfast.service)
    assert [name for name in holdfast.service.__all__ if getattr(holdfast.service, name, None) is None] == []


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Wroker'"):
        getattr(holdfast.service, "Wroker")  # noqa: B009


def test_a_command_that_only_looks_loads_neither_flow_files_nor_the_engine() -> None:
    done = run_script(
        """
    import sys
    import holdfast.cli
    from holdfast.service import JobService, Worker
    print([name for name in ("holdfast.flowfiles", "holdfast.jobs", "holdfast.runtime", "rich") if name in sys.modules])
    """
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
