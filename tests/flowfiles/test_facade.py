"""`holdfast.flowfiles`: everything it promises, nothing before it is used."""

from __future__ import annotations

import pytest
from tests.runs.support import run_script

from holdfast import flowfiles


def test_every_public_name_is_there() -> None:
    assert [name for name in flowfiles.__all__ if getattr(flowfiles, name, None) is None] == []
    assert dir(flowfiles) == sorted(flowfiles.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'load_flw'"):
        getattr(flowfiles, "load_flw")  # noqa: B009


def test_the_model_and_expressions_need_no_yaml_and_loading_needs_no_loop() -> None:
    done = run_script(
        """
    import sys
    from holdfast.flowfiles import FlowFile, compile_expression, compile_template
    print([name for name in ("yaml", "pydantic", "simpleeval", "asyncio") if name in sys.modules])
    from holdfast.flowfiles import check_flow
    print([name for name in ("yaml", "pydantic", "simpleeval", "asyncio") if name in sys.modules])
    """
    )
    assert (done.stdout, done.stderr) == ("[]\n['yaml']\n", "")
