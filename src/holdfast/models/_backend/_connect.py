"""From a model's name to an object of pydantic-ai that can be asked."""

from __future__ import annotations

import functools
import inspect
import re
import ssl
from typing import Any

import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model as TheirModel
from pydantic_ai.models import infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from holdfast.errors import ModelKeyMissingError, UsageError
from holdfast.models._provider import Target

ALIASES = {"openai": "openai-chat", "gemini": "google"}
"""Where our name for a provider is not theirs."""
SHARING = {"openai-chat", "openai-responses", "anthropic"}
"""Providers that take an HTTP client of ours; the others make their own, with 26 ms of certificates each time."""
LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
TIMEOUT = httpx2.Timeout(600, connect=5)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes 26 ms."""
    return httpx2.create_ssl_context()


def connect(target: Target) -> tuple[TheirModel[Any], httpx2.AsyncClient | None]:
    """Their model, and the HTTP client to close afterwards if it is ours.

    Raises UsageError for a provider that is unknown or not installed, ModelKeyMissingError when there is no key.
    """
    provider, _, name = target.name.partition(":")
    kind = ALIASES.get(provider, provider)
    client = httpx2.AsyncClient(verify=_certificates(), limits=LIMITS, timeout=TIMEOUT) if kind in SHARING else None
    try:
        model = infer_model(f"{kind}:{name}", lambda _: _make_provider(kind, target, client))
    except (UserError, ValueError) as error:
        raise _explained(target, error) from error
    except ImportError as error:
        raise UsageError(f"{target.name} needs a package that is not installed: {error}") from error
    _leave_retries_to_us(model)
    return model, client


def _make_provider(kind: str, target: Target, client: httpx2.AsyncClient | None) -> Provider[Any]:
    make = infer_provider_class(kind)
    taken = inspect.signature(make.__init__).parameters
    given = {"base_url": target.base_url, "api_key": target.api_key, "http_client": client}
    given = {name: value for name, value in given.items() if value is not None}
    if unknown := [name for name in given if name not in taken]:
        raise UsageError(f"{target.name}: this provider takes no {' or '.join(unknown)}; leave it out")
    return make(**given)


def _explained(target: Target, error: Exception) -> Exception:
    text = str(error)
    if variable := re.search(r"[A-Z0-9_]+_(?:API_)?(?:KEY|TOKEN)\b", text):
        return ModelKeyMissingError(
            f"there is no key for {target.name}: set {variable[0]} in the environment, or pass api_key",
            variable=variable[0],
            model=target.name,
        )
    return UsageError(f"{target.name} cannot be used: {text}")


def _leave_retries_to_us(model: TheirModel[Any]) -> None:
    """The providers' own clients try again by themselves, without our clock, caps and counts."""
    client: Any = getattr(model, "client", None)
    if isinstance(getattr(client, "max_retries", None), int):
        client.max_retries = 0
