"""Models of providers, over real HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from holdfast.errors import (
    ModelAuthError,
    ModelKeyMissingError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
    UsageError,
)
from holdfast.models import (
    NO_RETRIES,
    Image,
    Message,
    ModelSettings,
    Price,
    ProviderModel,
    SystemMessage,
    Text,
    ToolMessage,
    ToolSpec,
    UserMessage,
    dump_model,
    load_model,
)
from holdfast.serde import encode
from holdfast.testing import Answer, Failure, Gate, ModelServer, Raw, Thinking, ToolUse

KEY = "sk-do-not-show-me"
ASK: Sequence[Message] = [UserMessage("hello")]


def gpt(server: ModelServer, **options: Any) -> ProviderModel:
    given: dict[str, Any] = {"api_key": KEY, "retries": NO_RETRIES} | options
    return ProviderModel("openai:gpt-4o", base_url=server.openai_url, **given)


def claude(server: ModelServer, **options: Any) -> ProviderModel:
    given: dict[str, Any] = {"api_key": KEY, "retries": NO_RETRIES} | options
    return ProviderModel("anthropic:claude-opus-5", base_url=server.url, **given)


# -- what is sent ------------------------------------------------------------------------------------------------------


async def test_settings_and_tools_reach_the_provider() -> None:
    settings = ModelSettings(
        temperature=0.5, max_tokens=7, seed=3, stop=("END",), tool_choice="required", extra_body={"mine": 1}
    )
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    with ModelServer(["ok"]) as server:
        await gpt(server).request(ASK, [ToolSpec("add", "Adds.", schema)], settings)
    body = server.requests[0].body
    sent = {name: body.get(name) for name in ("temperature", "seed", "stop", "tool_choice", "mine")}
    assert sent == {"temperature": 0.5, "seed": 3, "stop": ["END"], "tool_choice": "required", "mine": 1}
    assert body["max_completion_tokens"] == 7
    assert body["tools"][0]["function"]["name"] == "add"
    assert body["tools"][0]["function"]["parameters"]["properties"] == schema["properties"]


async def test_an_answer_can_be_held_to_a_schema() -> None:
    settings = ModelSettings(output_schema={"type": "object", "properties": {"x": {"type": "integer"}}})
    with ModelServer(['{"x":1}']) as server:
        assert (await gpt(server).request(ASK, settings=settings)).text == '{"x":1}'
    assert server.requests[0].body["response_format"]["json_schema"]["schema"]["properties"] == {
        "x": {"type": "integer"}
    }


async def test_images_are_sent_by_address_or_as_bytes() -> None:
    content = (Text("look"), Image(url="http://x.test/a.png"), Image(data=b"\x89PNG", media_type="image/png"))
    with ModelServer(["ok"]) as server:
        await gpt(server).request([UserMessage(content)])
    sent = server.requests[0].messages[0]["content"]
    assert [part["type"] for part in sent] == ["text", "image_url", "image_url"]
    assert sent[1]["image_url"]["url"] == "http://x.test/a.png"
    assert sent[2]["image_url"]["url"] == "data:image/png;base64,iVBORw=="


async def test_signed_thinking_and_failed_tools_go_back_to_the_provider() -> None:
    with ModelServer([Answer(Thinking("hm"), ToolUse("add", {"a": 1}, id="t1")), "ok"]) as server:
        model = claude(server)
        reply = await model.request(ASK)
        await model.request([*ASK, reply.message, ToolMessage("t1", "add", "it broke", is_error=True)])
    _, said, result = server.requests[1].messages
    assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
    assert said["content"][1]["input"] == {"a": 1}
    assert (result["content"][0]["is_error"], result["content"][0]["content"][0]["text"]) == (True, "it broke")


async def test_what_the_user_wrote_is_not_added_to() -> None:
    with ModelServer(["ok", "ok"]) as server:
        model = ProviderModel("anthropic:claude-sonnet-5", base_url=server.url, api_key=KEY)
        await model.request([SystemMessage("Be brief."), *ASK])
        late = [SystemMessage("Be brief."), *ASK, SystemMessage("Be rude."), UserMessage("again")]
        await gpt(server).request(late)
    assert server.requests[0].body["system"] == "Be brief."
    assert [m["content"] for m in server.requests[1].messages] == ["Be brief.", "hello", "Be rude.", "again"]


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_the_key_comes_from_the_argument_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(["a", "b", "c"]) as server:
        await gpt(server, api_key=SecretStr("from-argument")).request(ASK)
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        await ProviderModel("openai:gpt-4o").request(ASK)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-environment")
        await claude(server, api_key=None).request(ASK)
    keys = [r.headers.get("authorization", r.headers.get("x-api-key", "")) for r in server.requests]
    assert [key.removeprefix("Bearer ") for key in keys] == ["from-argument", "from-environment", "from-environment"]


@pytest.mark.parametrize(
    ("name", "variable"), [("openai:gpt-4o", "OPENAI_API_KEY"), ("anthropic:claude-opus-5", "ANTHROPIC_API_KEY")]
)
async def test_s1_10_a_missing_key_is_named(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable_name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable_name, raising=False)
    with pytest.raises(ModelKeyMissingError, match=f"set {variable} in the environment, or pass api_key") as raised:
        await ProviderModel(name).request(ASK)
    assert raised.value.variable == variable


async def test_s1_10_the_key_is_never_shown_or_stored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    echo = Failure(401, f"Incorrect API key provided: {KEY}")
    with ModelServer([echo, echo, "ok"]) as server:
        for model in (gpt(server), claude(server)):
            with pytest.raises(ModelAuthError, match=r"Incorrect API key provided: \*\*\*") as raised:
                await model.request(ASK)
            shown = "".join(traceback.format_exception(raised.value))
            shown += repr(model) + repr(vars(model)) + encode(dump_model(model)).decode() + caplog.text
            assert KEY not in shown
        reply = await gpt(server).request(ASK)
    assert KEY not in encode(reply).decode()


async def test_s1_10_a_restored_model_wants_its_key_again() -> None:
    with ModelServer(["ok"]) as server:
        restored = load_model(dump_model(gpt(server)))
        assert isinstance(restored, ProviderModel)
        assert restored.needs_key
        with pytest.raises(ModelKeyMissingError, match="give it again with with_key"):
            await restored.request(ASK)
        restored.with_key(KEY)
        assert (await restored.request(ASK)).text == "ok"
    assert load_model(dump_model(restored)).to_stored() == dump_model(restored)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_model_that_holds_a_key_cannot_slip_out_by_pickle() -> None:
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pickle.dumps(ProviderModel("openai:gpt-4o", api_key=KEY))


# -- what is wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt-4o", "openai:", ":gpt", ""])
def test_a_name_without_a_provider_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="write provider:model"):
        ProviderModel(name)


@pytest.mark.parametrize(
    ("url", "words"), [("ftp://x", "http://"), ("x.test/v1", "http://"), ("https://me:pw@x.test", "user or password")]
)
def test_an_address_that_cannot_be_or_holds_a_password_is_refused(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        ProviderModel("openai:gpt-4o", base_url=url)
    assert "pw" not in str(raised.value)


async def test_a_provider_that_does_not_exist_or_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match="nobody:x cannot be used"):
        await ProviderModel("nobody:x").request(ASK)
    with pytest.raises(UsageError, match=r"google:gemini-2\.5-pro needs a package that is not installed"):
        await ProviderModel("google:gemini-2.5-pro", api_key="k").request(ASK)
    with pytest.raises(UsageError, match="takes no base_url"):
        await ProviderModel("deepseek:deepseek-chat", api_key="k", base_url="http://x.test").request(ASK)


async def test_an_answer_that_is_none_is_an_error_that_is_not_tried_again() -> None:
    broken = [Raw(b'{"choi'), Raw(b"{}"), Raw(b"", "text/event-stream"), Raw(b"<html>")]
    for body in broken:
        with ModelServer([body] * 3) as server:
            for model in (gpt(server), claude(server)):
                with pytest.raises(ModelReplyError):
                    await model.request(ASK)
            with pytest.raises(ModelReplyError):
                [part async for part in gpt(server).stream(ASK)]
            assert len(server.requests) == 3


@pytest.mark.parametrize("status", [402, 404, 413, 422])
async def test_other_refusals_are_not_tried_again(status: int) -> None:
    with ModelServer([Failure(status)]) as server:
        with pytest.raises(ModelRequestError, match=f"HTTP {status}"):
            await ProviderModel("openai:gpt-4o", base_url=server.openai_url, api_key=KEY).request(ASK)
        assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with ModelServer() as server:
        url = server.openai_url
    with pytest.raises(ModelUnavailableError, match="can be reached"):
        await ProviderModel("openai:gpt-4o", base_url=url, api_key=KEY, retries=NO_RETRIES).request(ASK)


@pytest.mark.parametrize("make", [gpt, claude])
async def test_a_provider_that_says_nothing_is_given_up_in_time(make: Callable[[ModelServer], ProviderModel]) -> None:
    gate = Gate()
    with ModelServer([Answer(gate, "late"), Answer(gate, "late")]) as server:
        with pytest.raises(ModelUnavailableError):
            await make(server).request(ASK, settings=ModelSettings(timeout=0.2, max_tokens=9))
        with pytest.raises(ModelUnavailableError):
            [part async for part in make(server).stream(ASK, settings=ModelSettings(timeout=0.2))]
        gate.open()


# -- costs and connections ---------------------------------------------------------------------------------------------


async def test_a_cost_is_known_by_the_users_table_and_never_made_up() -> None:
    answer = Answer("ok", input_tokens=1_000_000, output_tokens=500_000, cached_tokens=200_000)
    with ModelServer([answer] * 3) as server:
        assert (await gpt(server).request(ASK)).usage.cost_usd is None
        reply = await gpt(server, prices={"openai:gpt-4o": Price(2.0, 8.0, 1.0)}).request(ASK)
        assert reply.usage.cost_usd == pytest.approx(1.6 + 0.2 + 4.0)
        reply = await claude(server, prices={"anthropic:*": Price(2.0, 8.0)}).request(ASK)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens) == (1_000_000, 200_000)
    assert reply.usage.cost_usd == pytest.approx(2.0 + 4.0)


async def test_inside_opened_one_connection_serves_all_calls_and_is_closed_at_the_end() -> None:
    with ModelServer(["a", "b", "c", "d"]) as server:
        model = gpt(server)
        async with model.opened(), model.opened():
            for _ in range(3):
                await model.request(ASK)
            assert len(server._connections) == 1
        await model.request(ASK)
        for _ in range(100):
            if not server._connections:
                break
            await asyncio.sleep(0.01)
        assert not server._connections
    gc.collect()  # an unclosed socket would warn now
