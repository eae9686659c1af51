"""Runs that are taken up again in a process that did not begin them: by checkpoint, by branch, by answer."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.checkpoints import CheckpointConfig, Progress, Restored, Where, restore, source_of
from holdfast.errors import UsageError
from holdfast.kickoff._opening import waited_for
from holdfast.ports import HumanRequest

_KINDS = {"human_feedback_requested": "feedback", "llm_call_paused": "secret"}


def find_recorded(runtime: Any, config: CheckpointConfig, where: Where) -> tuple[Restored, Where]:
    """A recorded run as it stood at a checkpoint, and where a kickoff with the configuration finds it again."""

    async def find() -> tuple[Restored, Where]:
        source = await source_of(config, runtime, where)
        assert source.checkpoint is not None
        return await restore(source.store, source.checkpoint), source.place_of(where)

    return waited_for(runtime, find())


def questions_of(restored: Restored) -> tuple[HumanRequest, ...]:
    """What the run and the runs inside it wait for."""
    return tuple(_request(run_id, *item) for run_id, run in restored.fold.runs.items() for item in _asked(run))


def _asked(progress: Progress) -> list[tuple[str, dict[str, Any]]]:
    return [(request_id, asked.event) for request_id, asked in progress.asked.items()]


def _request(run_id: str, request_id: str, event: dict[str, Any]) -> HumanRequest:
    told = {
        "id": request_id,
        "kind": _KINDS.get(event["type"], "input"),
        "message": event["message"],
        "run_id": run_id,
        "flow_name": event.get("flow_name", ""),
        "method_name": event.get("method_name", ""),
        "output": event.get("output"),
        "options": event.get("emit", ()),
        "metadata": event.get("metadata", {}),
        "expires_us": event.get("expires_us"),
    }
    return msgspec.convert(told, HumanRequest)


def answer_to(questions: tuple[HumanRequest, ...], request_id: str | None, answer: str) -> dict[str, str]:
    """An answer with the question it belongs to. Raises UsageError if that cannot be told."""
    ids = [question.id for question in questions]
    if request_id is None and len(ids) == 1:
        return {ids[0]: answer}
    if request_id in ids:
        return {str(request_id): answer}
    if not ids:
        raise UsageError("this run waits for no answer, or for none any more; kickoff() goes on with it if it can")
    waiting = ", ".join(repr(one) for one in ids)
    raise UsageError(f"say which question is answered, resume(answer, request_id=…), one of {waiting}")
