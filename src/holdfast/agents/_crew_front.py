"""A kickoff of a crew, as something that can be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.agents._doing import Doing
from holdfast.agents._outputs import CrewOutput, TaskOutput
from holdfast.agents._plan import task_keys
from holdfast.agents._stored_crew import dump_crew
from holdfast.checkpoints import CheckpointConfig
from holdfast.context import Subject
from holdfast.errors import AnswerPendingError
from holdfast.events._base import BaseEvent
from holdfast.events.families.crew import (
    CrewKickoffCancelledEvent,
    CrewKickoffCompletedEvent,
    CrewKickoffFailedEvent,
    CrewKickoffPausedEvent,
    CrewKickoffStartedEvent,
)
from holdfast.events.families.task import (
    TaskCancelledEvent,
    TaskCompletedEvent,
    TaskFailedEvent,
    TaskPausedEvent,
    TaskSkippedEvent,
    TaskStartedEvent,
)
from holdfast.graph import Cancelled, Completed, Execution, Fact, Failed, Graph, Started, Waiting
from holdfast.human import ConsoleProvider
from holdfast.kickoff import Asking, Budget, Kickoff, Moment
from holdfast.ports import HumanRequest, Usage
from holdfast.runs import Run

if TYPE_CHECKING:
    from holdfast.agents._crew import Crew


class CrewProgram:
    """Does a crew's tasks."""

    def __init__(self, crew: Crew, graph: Graph, doing: Doing, recorded: Mapping[str, TaskOutput]) -> None:
        self.graph = graph
        self._crew = crew
        self._doing = doing
        self._keys = task_keys(crew.tasks)
        self._outputs = {key.rpartition("#")[0]: output for key, output in recorded.items()}

    def is_async(self, step: str) -> bool:
        return True

    async def call(self, execution: Execution, given: Any) -> TaskOutput:
        place = self._keys.index(execution.step)
        before = [self._outputs[key] for key in self._keys[:place] if key in self._outputs]
        task = self._crew.tasks[place]
        context = before
        if task.context is not None:
            wanted = [key for key, one in zip(self._keys, self._crew.tasks, strict=True) if one in task.context]
            context = [self._outputs[key] for key in wanted]
        output = await self._doing.do(task, before[-1] if before else None, context)
        self._outputs[execution.step] = output
        return output

    def route(self, step: str, result: Any) -> str | None:
        return None

    def items(self, step: str, result: Any) -> int | None:
        return None

    def subject(self, step: str) -> Subject | None:
        task = self._crew.tasks[self._keys.index(step)]
        return Subject(task_id=task.id, task_name=task.name or step)

    def event(self, fact: Fact, result: Any, error: BaseException | None) -> tuple[type[BaseEvent], dict[str, Any]]:
        assert isinstance(fact, Started | Completed | Failed | Cancelled | Waiting)
        about: dict[str, Any] = {"step": fact.step, "execution": fact.number}
        if isinstance(fact, Started):
            task = self._crew.tasks[self._keys.index(fact.step)]
            told = {"description": task.description, "expected_output": task.expected_output}
            return TaskStartedEvent, about | told
        if isinstance(fact, Completed):
            kind: type[BaseEvent] = TaskSkippedEvent if result.is_skipped else TaskCompletedEvent
            return kind, about | {"output": result}
        if isinstance(fact, Failed):
            return TaskFailedEvent, about | {"error": str(error), "error_type": type(error).__name__}
        if isinstance(fact, Waiting):
            requests: Any = error.requests if isinstance(error, AnswerPendingError) else ()
            return TaskPausedEvent, about | {"message": requests[0].message if requests else ""}
        return TaskCancelledEvent, about


class CrewFront:
    """One crew and its kickoffs."""

    kind = "crew"
    state_example: Any = dict
    on_state_conflict: Literal["fail", "last"] = "fail"
    is_async = True

    def __init__(self, crew: Crew) -> None:
        self.entity = crew
        self.graph = crew.graph()
        self._kickoff: Kickoff | None = None

    @property
    def name(self) -> str:
        return self.entity.name

    @property
    def made_by(self) -> str:
        return f"{type(self.entity).__module__}:{type(self.entity).__qualname__}"

    @property
    def checkpoint(self) -> CheckpointConfig | None:
        return self.entity.checkpoint_config

    @property
    def budget(self) -> Budget | None:
        return self.entity.budget

    @property
    def may_ask(self) -> bool:
        return any(task.human_input for task in self.entity.tasks)

    @property
    def is_apart(self) -> bool:
        return self.entity.checkpoint is False

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> CrewProgram:
        kickoff = self._kickoff
        assert kickoff is not None
        crew = self.entity
        inputs = kickoff.cell.current().get("inputs") or {}
        doing = Doing(run, crew, inputs, asking, crew.human or ConsoleProvider())
        return CrewProgram(crew, self.graph, doing, kickoff.recorded())

    def typed(self, step: str, result: Any) -> TaskOutput:
        output = msgspec.convert(result, TaskOutput)
        form = self._form_of(step)
        if form is None or output.pydantic is None or isinstance(output.pydantic, form):
            return output
        return msgspec.structs.replace(output, pydantic=form.model_validate(output.pydantic))

    def _form_of(self, step: str) -> Any:
        found = dict(zip(task_keys(self.entity.tasks), self.entity.tasks, strict=True)).get(step)
        return found.output_pydantic if found is not None else None

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        return {"crew": dump_crew(self.entity)} if config.self_contained else {}

    def outcome(self, results: Mapping[str, Any], last: Any) -> CrewOutput:
        outputs = {key.rpartition("#")[0]: output for key, output in results.items()}
        ordered = tuple(outputs[key] for key in task_keys(self.entity.tasks) if key in outputs)
        final = next((one for one in reversed(ordered) if not one.is_skipped), TaskOutput(""))
        usage = sum((one.usage for one in ordered), Usage())
        return CrewOutput(final.raw, final.pydantic, final.json_dict, ordered, usage)

    def saver(self, run: Run) -> None:
        return None

    def event(self, moment: Moment, **about: Any) -> tuple[type[BaseEvent], dict[str, Any]]:
        name = {"crew_name": self.name}
        if moment == "started":
            about["inputs"] = about["inputs"].get("inputs", {})
            return CrewKickoffStartedEvent, name | about
        if moment == "finished":
            output: CrewOutput = about["result"]
            return CrewKickoffCompletedEvent, name | {"output": output.raw, "total_tokens": output.usage.total_tokens}
        if moment == "failed":
            error = about["error"]
            return CrewKickoffFailedEvent, name | {"error": str(error), "error_type": type(error).__name__}
        if moment == "paused":
            request: HumanRequest | None = about["request"]
            return CrewKickoffPausedEvent, name | {"message": request.message if request else ""}
        return CrewKickoffCancelledEvent, name | about

    def begins(self, run_id: str, kickoff: Kickoff) -> None:
        self._kickoff = kickoff
        self.entity.latest = kickoff

    def ends(self, run_id: str) -> None:
        self._kickoff = None

    def put_down(self, run_id: str, requests: tuple[HumanRequest, ...]) -> None:
        self.entity.starter.put_down(run_id, requests)
