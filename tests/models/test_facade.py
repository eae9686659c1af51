from __future__ import annotations

import pytest
from tests.runs.support import run_script

from holdfast import models


def test_every_public_name_is_there() -> None:
    assert [name for name in models.__all__ if not hasattr(models, name)] == []
    assert dir(models) == sorted(models.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'holdfast\.models' has no attribute 'Modle'"):
        getattr(models, "Modle")  # noqa: B009


def test_a_model_can_be_made_and_a_scripted_one_asked_without_the_providers_library() -> None:
    done = run_script(
        """
    import asyncio, sys
    from holdfast.models import ProviderModel, ScriptedModel, UserMessage
    ProviderModel("openai:gpt-4o", api_key="k")
    print(asyncio.run(ScriptedModel(["hi"]).request([UserMessage("x")])).text)
    print([name for name in ("pydantic_ai", "openai", "anthropic", "httpx2", "mcp") if name in sys.modules])
    """
    )
    assert (done.stdout, done.stderr) == ("hi\n[]\n", "")
