"""Secrets of tools: never stored, and supplied again before a restored agent or crew goes on."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.checkpoints import CheckpointConfig, RunLog
from holdfast.errors import AnswerPendingError
from holdfast.kickoff import from_environment, request_id_of, variable_of
from holdfast.ports import HumanRequest
from holdfast.runs import Run
from holdfast.tools import BaseTool


def secrets_needed(tools: Iterable[BaseTool], run_id: str, name: str) -> tuple[HumanRequest, ...]:
    """A question for each secret that restored tools still need."""
    return tuple(
        HumanRequest(
            request_id_of(run_id, secret),
            "secret",
            f"the secret {secret} is needed: set {variable_of(secret)}, or give it to resume()",
            run_id,
            name,
        )
        for secret in dict.fromkeys(secret for tool in tools for secret in tool.missing_secrets.values())
    )


def supply_secrets(tools: Iterable[BaseTool], run: Run, config: CheckpointConfig | None) -> None:
    """Give restored tools what they need: what `resume()` brought, else what the configuration or the environment knows.

    Raises AnswerPendingError that says what is missing.
    """
    tools = list(tools)
    answers = run.journal.answers if isinstance(run.journal, RunLog) else {}
    known = (config.secrets if config is not None else None) or from_environment
    for tool in tools:
        for field, secret in tool.missing_secrets.items():
            if found := answers.get(request_id_of(run.root_id, secret)) or known(secret) or known(field):
                tool.supply(field, found)
    if missing := secrets_needed(tools, run.root_id, run.name):
        raise AnswerPendingError("secrets are needed to go on", requests=missing)
