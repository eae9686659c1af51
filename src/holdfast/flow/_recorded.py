"""Flows that are taken up again in a process that has only their classes: by checkpoint, by branch, by answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.checkpoints import CheckpointConfig, Progress, Restored, Where, definition_of, restore, source_of
from holdfast.errors import StorageError, UsageError
from holdfast.flow._durable import made_by_of, waited_for
from holdfast.ports import HumanRequest

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow

F = TypeVar("F", bound="Flow[Any]")


def find_recorded(runtime: Any, config: CheckpointConfig, where: Where) -> tuple[Restored, str]:
    """A recorded run as it stood at a checkpoint, and the checkpoint's id in the store of the configuration."""

    async def find() -> tuple[Restored, str]:
        source = await source_of(config, runtime, where)
        assert source.checkpoint is not None
        return await restore(source.store, source.checkpoint), source.checkpoint

    return waited_for(runtime, find())


def class_of(kind: type[F], restored: Restored) -> type[F]:
    """The class to make: the one that was asked, or, asked of a base, the recorded subclass if the program has it."""
    made_by = definition_of(restored.info).made_by
    if made_by_of(kind) == made_by or kind.is_runnable():
        return kind
    found = kind.known_subclasses().get(made_by)
    if found is None:
        module, _, name = made_by.partition(":")
        first = "import the module that it is now in" if module == "__main__" else f"`import {module}` first"
        raise StorageError(
            f"run {restored.info.root_run_id} was made by {name}, which this program has not imported: "
            f"{first}, or call {name}.from_checkpoint()"
        )
    return found


def questions_of(restored: Restored) -> tuple[HumanRequest, ...]:
    """What the run and the runs inside it wait for."""
    return tuple(_request(run_id, *item) for run_id, run in restored.fold.runs.items() for item in _asked(run))


def _asked(progress: Progress) -> list[tuple[str, dict[str, Any]]]:
    return [(request_id, asked.event) for request_id, asked in progress.asked.items()]


def _request(run_id: str, request_id: str, event: dict[str, Any]) -> HumanRequest:
    is_feedback = event["type"] == "human_feedback_requested"
    told = {
        "id": request_id,
        "kind": "feedback" if is_feedback else "input",
        "message": event["message"],
        "run_id": run_id,
        "flow_name": event["flow_name"],
        "method_name": event["method_name"],
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
