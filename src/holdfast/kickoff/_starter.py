"""What an object that can be kicked off remembers between its kickoffs: what comes next, and what was left open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.checkpoints import CheckpointConfig, Restored, Where
from holdfast.errors import FlowInputError, SyncInAsyncError, UsageError
from holdfast.kickoff._launch import alaunch, alaunch_stream, launch, launch_stream
from holdfast.kickoff._opening import Plan
from holdfast.kickoff._recorded import answer_to, find_recorded, questions_of
from holdfast.kickoff._secrets import missing_secrets
from holdfast.ports import DefaultRuntime, HumanProvider, HumanRequest

if TYPE_CHECKING:
    from holdfast.kickoff._front import Front


class Starter:
    """Starts the kickoffs of one object. What `from_checkpoint` or `fork` planned is done once; the next one starts afresh."""

    def __init__(self, runtime: Any = None) -> None:
        self._runtime = runtime
        self._next: Plan | None = None
        self._put_down: str | None = None
        self._given: Mapping[str, str] = {}
        """Answers that the latest kickoff was given. One that waits for a secret first has not written them down."""
        self.questions: tuple[HumanRequest, ...] = ()
        """What its run was put down with."""

    @property
    def runtime(self) -> Any:
        return self._runtime or DefaultRuntime.get()

    def start(
        self, front: Front, inputs: Mapping[str, Any] | None, from_checkpoint: Where | None, *, streamed: bool
    ) -> Any:
        """Run it and return the result, or a stream of it. Raises SyncInAsyncError in a coroutine of a run."""
        runtime = self.runtime
        if asyncio._get_running_loop() is not None and runtime.current_run() is not None:
            raise SyncInAsyncError(
                "kickoff() inside an async step would block the loop of its own run; use `await akickoff()`"
            )
        begin = launch_stream if streamed else launch
        return begin(front, runtime, self._planned(front, inputs, from_checkpoint))

    async def astart(
        self, front: Front, inputs: Mapping[str, Any] | None, from_checkpoint: Where | None, *, streamed: bool
    ) -> Any:
        """`start` for coroutines."""
        begin = alaunch_stream if streamed else alaunch
        return await begin(front, self.runtime, self._planned(front, inputs, from_checkpoint))

    def _planned(self, front: Front, inputs: Mapping[str, Any] | None, from_checkpoint: Where | None) -> Plan:
        if from_checkpoint is not None:
            check_where(from_checkpoint)
        planned, self._next = self._next, None
        given = named_inputs(inputs)
        if planned is None:
            plan = Plan(given, from_checkpoint)
        else:
            plan = msgspec.structs.replace(planned, inputs=given, checkpoint=from_checkpoint or planned.checkpoint)
        if plan.checkpoint is not None and front.checkpoint is None and plan.config is None:
            kind = front.kind.capitalize()
            raise UsageError(
                f"to go on from a checkpoint the {front.kind} must know where it is kept: {kind}(checkpoint=CheckpointConfig(…))"
            )
        self._given = plan.answers
        return plan

    # -- taking it up again ----------------------------------------------------------------------------------------

    @property
    def is_planned(self) -> bool:
        """Whether the next kickoff goes on with a recorded run."""
        return self._next is not None

    def find(self, config: CheckpointConfig, where: Where) -> tuple[Restored, Plan]:
        """A recorded run as it stood, and the plan that goes on there. Raises StorageError, and UsageError for no place at all."""
        check_where(where)
        restored, found = find_recorded(self.runtime, config, where)
        return restored, Plan(checkpoint=found)

    def take_up(self, name: str, config: CheckpointConfig, restored: Restored, plan: Plan) -> None:
        """The next kickoff goes on with this run."""
        self._next = plan
        run_id = restored.info.root_run_id
        secrets = missing_secrets(restored.state, run_id, name, config.secrets)
        self.put_down(run_id, (*questions_of(restored), *secrets))

    def fork(self, branch: str, edits: Mapping[str, Any]) -> None:
        """The next kickoff goes on as planned, but on a branch of its own, with these fields of the state set."""
        assert self._next is not None
        self._next = msgspec.structs.replace(self._next, branch=branch, edits=dict(edits))

    def put_down(self, run_id: str, questions: tuple[HumanRequest, ...]) -> None:
        """Its run waits for people; the next answer is about these questions."""
        self._put_down, self.questions = run_id, questions

    def need(self, more: tuple[HumanRequest, ...]) -> None:
        """Its run needs answers to these as well."""
        self.questions += more

    def answer(self, config: CheckpointConfig | None, answer: str, request_id: str | None) -> None:
        """The next kickoff goes on with an answer. Raises UsageError if the run waits for no such answer."""
        plan = self._next or Plan(checkpoint=self._put_down, config=config or CheckpointConfig())
        answers = {**self._given, **plan.answers, **answer_to(self.questions, request_id, answer)}
        self._next = msgspec.structs.replace(plan, answers=answers)


def checkpoint_config(checkpoint: CheckpointConfig | bool | None) -> CheckpointConfig | None:
    """What `checkpoint=` means. Raises UsageError for what it cannot mean."""
    if not isinstance(checkpoint, CheckpointConfig | bool | None):
        raise UsageError(
            f"checkpoint={checkpoint!r} says not how: write checkpoint=True for the project's own store, or name one, "
            f"checkpoint=CheckpointConfig(SqliteProvider('runs.db'))"
        )
    return CheckpointConfig() if checkpoint is True else checkpoint or None


def human_provider(human: HumanProvider | None) -> HumanProvider | None:
    """What `human=` means. Raises UsageError for what cannot ask anybody."""
    if human is not None and not hasattr(human, "request"):
        raise UsageError(f"human={human!r} cannot ask anybody: give an object with a method request(request)")
    return human


def check_where(where: Where) -> None:
    """Raises UsageError for what names no checkpoint, so that it is neither a riddle nor taken for a fresh start."""
    given: object = where
    if not isinstance(given, str | os.PathLike) or not str(given):
        raise UsageError(
            f"from_checkpoint wants the id of a run or a checkpoint, or a file, not {given!r}; where they are kept is "
            f"the object's checkpoint="
        )


def named_inputs(inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a kickoff is given. Raises FlowInputError for what has no names."""
    if inputs is None:
        return {}
    given: object = inputs
    if not isinstance(given, Mapping):
        raise FlowInputError(
            f"inputs are names with values, kickoff({{'topic': 'whales'}}), not a {type(given).__name__}"
        )
    return dict(inputs)
