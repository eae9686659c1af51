"""pydantic-ai's errors in our words, without the key, each with what to do."""

from __future__ import annotations

import re
from typing import Any

from pydantic_ai import exceptions as theirs

from holdfast.errors import (
    ContextLengthError,
    ModelAuthError,
    ModelError,
    ModelRateLimitedError,
    ModelReplyError,
    ModelRequestError,
    ModelUnavailableError,
)

Kind = tuple[type[ModelError], str]

_KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (
        theirs.ModelContextWindowExceededError,
        (ContextLengthError, "the messages do not fit into its context window; shorten or summarise them"),
    ),
    (theirs.ModelAuthenticationError, (ModelAuthError, "check that the key is right and may use this model")),
    (theirs.ModelNotFoundError, (ModelRequestError, "check the model's name and the base_url")),
    (theirs.ModelQuotaExceededError, (ModelRequestError, "the account's quota is used up; raise it or pay in")),
    (theirs.ModelRateLimitError, (ModelRateLimitedError, "wait, or cap requests with RequestLimits")),
    (theirs.ModelRequestRejectedError, (ModelRequestError, "change the request as the provider says")),
    (theirs.ModelUnavailableError, (ModelUnavailableError, "try again later")),
    (theirs.ModelServerError, (ModelUnavailableError, "try again later")),
    (theirs.ModelConnectionError, (ModelUnavailableError, "see that the provider can be reached")),
    (theirs.ModelRequestTimeout, (ModelUnavailableError, "try again, or allow more time")),
    (theirs.UnexpectedModelBehavior, (ModelReplyError, "see that the base_url is a model's, or try another model")),
)
_BY_STATUS: Kind = (ModelRequestError, "change the request as the provider says")
_SLOW: Kind = (ModelUnavailableError, "try again later")
_NO_ANSWER: Kind = (ModelReplyError, "see that the base_url is a model's, or try another model")
_LONGEST = 500

CAUGHT = (theirs.AgentRunError, theirs.UserError)
"""What their calls raise on purpose."""


def translate(error: Exception, model: str, key: str | None) -> ModelError:
    """Our error for theirs. Never says the key, whatever the provider repeated."""
    make, advice = _kind_of(error)
    status = getattr(error, "status_code", None)
    said = _hide(_said(error), key)[:_LONGEST]
    number = f" (HTTP {status})" if status else ""
    return make(
        f"{model}: {said}{number}; {advice}",
        model=model,
        status=status,
        retry_after=getattr(error, "retry_after", None),
    )


def cause_of(error: Exception, key: str | None) -> Exception | None:
    """`error` as the cause of ours, unless it would show the key."""
    shown: BaseException | None = error
    while shown is not None and key:
        if key in str(shown) or key in repr(shown):
            return None
        shown = shown.__cause__ or shown.__context__
    return error


def _kind_of(error: Exception) -> Kind:
    for theirs_kind, ours in _KINDS:
        if isinstance(error, theirs_kind):
            return ours
    if isinstance(error, theirs.ModelHTTPError):
        return _SLOW if error.status_code in {408, 409, 425} else _BY_STATUS
    if isinstance(error, theirs.UserError):
        return _BY_STATUS
    return _NO_ANSWER


def _said(error: Exception) -> str:
    """The provider's own sentence where there is one, else all that is known."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        if isinstance(message, str) and message:
            return message
    return re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__


def _hide(text: str, key: str | None) -> str:
    return text.replace(key, "***") if key else text
