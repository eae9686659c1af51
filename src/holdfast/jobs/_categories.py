"""What kind of failure an error is: what `retry` and exit rules choose by."""

from __future__ import annotations

import asyncio

from holdfast import errors
from holdfast.flowfiles import ErrorCategory

_CATEGORIES: tuple[tuple[tuple[type[BaseException], ...], ErrorCategory], ...] = (
    ((errors.ExpressionError,), "expression"),
    ((errors.BudgetExceededError,), "limit"),
    ((errors.ModelAuthError,), "auth"),
    ((errors.ContextLengthError,), "context_length"),
    ((errors.ModelRequestError,), "failed"),
    ((errors.ModelRateLimitedError, errors.ModelUnavailableError, errors.ModelReplyError, errors.ModelStreamError), "transient"),
    ((errors.McpTimeoutError, TimeoutError, asyncio.TimeoutError), "timeout"),
    ((errors.McpConnectionError, ConnectionError), "transient"),
    ((errors.NotStorableError,), "output"),
    ((errors.SpawnError, errors.HandshakeError, errors.ConfigurationError, ModuleNotFoundError), "configuration"),
)  # fmt: skip


def category_of(error: BaseException) -> str:
    """The category of a failure; `failed` for what the work itself did wrong."""
    if isinstance(error, errors.JobStepError):
        return error.category
    if isinstance(error, errors.ModelRateLimitedError) and "quota" in str(error).lower():
        return "quota"
    return next((category for kinds, category in _CATEGORIES if isinstance(error, kinds)), "failed")
