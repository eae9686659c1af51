"""`holdfast.hooks`: everything it promises, nothing before it is used."""

from __future__ import annotations

import pytest
from tests.runs.support import run_script

from holdfast import hooks


def test_every_public_name_is_there() -> None:
    assert [name for name in hooks.__all__ if getattr(hooks, name, None) is None] == []
    assert dir(hooks) == sorted(hooks.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'verfy'"):
        getattr(hooks, "verfy")  # noqa: B009


def test_a_receiver_that_only_verifies_loads_no_store_no_loop_and_no_keeper() -> None:
    done = run_script(
        """
    import sys
    from holdfast.hooks import verify
    print([name for name in ("asyncio", "sqlite3", "pydantic", "holdfast.resources", "yaml") if name in sys.modules])
    """
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
