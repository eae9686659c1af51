"""A kickoff of a crew, as something that can be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.agents._doing import Doing
from holdfast.agents._filling import fill
from holdfast.agents._outputs import CrewOutput, TaskOutput
from holdfast.agents._plan import task_keys
from holdfast.agents._resumable import ResumableFront
from holdfast.agents._secrets import supply_secrets
from holdfast.agents._stored_crew import dump_crew
from holdfast.agents._uses import reach_uses
from holdfast.checkpoints import AgentUse, CheckpointConfig, Restored
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
from holdfast.kickoff import Asking, Meter, Moment, check_inputs
from holdfast.ports import HumanRequest
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
        self.subjects: Mapping[str, Subject] = {
            key: Subject(task_id=task.id, task_name=task.name or key)
            for key, task in zip(self._keys, crew.tasks, strict=True)
        }
        self._outputs = {key.rpartition("#")[0]: output for key, output in recorded.items()}

    def is_async(self, step: str) -> bool:
        return True

    async def call(self, execution: Execution, given: Any) -> TaskOutput:
        place = self._keys.index(execution.step)
        before = [self._outputs[key] for key in self._keys[:place] if key in self._outputs]
        task = self._crew.tasks[place]
        context = before
        if task.context is not None:
            places = {id(one): key for key, one in zip(self._keys, self._crew.tasks, strict=True)}
            context = [self._outputs[places[id(one)]] for one in task.context]
        output = await self._doing.do(task, before[-1] if before else None, context)
        self._outputs[execution.step] = output
        return output

    def route(self, step: str, result: Any) -> str | None:
        return None

    def items(self, step: str, result: Any) -> int | None:
        return None

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


class CrewFront(ResumableFront["Crew"]):
    """One crew and its kickoffs."""

    kind = "crew"

    def __init__(self, crew: Crew) -> None:
        super().__init__(crew)
        self.graph = crew.graph()

    @property
    def name(self) -> str:
        return self.entity.name

    @property
    def may_ask(self) -> bool:
        return any(task.human_input for task in self.entity.tasks)

    def program(self, run: Run, asking: Asking, done: Mapping[str, Any]) -> CrewProgram:
        crew = self.entity
        supply_secrets(crew.all_tools(), run, self.checkpoint)
        inputs = self.kickoff.cell.current().get("inputs") or {}
        doing = Doing(run, crew, inputs, asking, crew.human or ConsoleProvider())
        return CrewProgram(crew, self.graph, doing, self.kickoff.recorded())

    def typed(self, step: str, result: Any) -> TaskOutput:
        output = msgspec.convert(result, TaskOutput)
        form = self._form_of(step)
        if form is None or output.pydantic is None or isinstance(output.pydantic, form):
            return output
        return msgspec.structs.replace(
            output, pydantic=form.model_validate(output.pydantic, by_alias=False, by_name=True)
        )

    def _form_of(self, step: str) -> Any:
        found = dict(zip(task_keys(self.entity.tasks), self.entity.tasks, strict=True)).get(step)
        return found.output_pydantic if found is not None else None

    def stored(self, config: CheckpointConfig) -> dict[str, Any]:
        return dump_crew(self.entity) if config.self_contained else {}

    def outcome(self, results: Mapping[str, Any], last: Any, meter: Meter) -> CrewOutput:
        outputs = {key.rpartition("#")[0]: output for key, output in results.items()}
        ordered = tuple(outputs[key] for key in task_keys(self.entity.tasks) if key in outputs)
        final = next((one for one in reversed(ordered) if not one.is_skipped), TaskOutput(""))
        return CrewOutput(final.raw, final.pydantic, final.json_dict, ordered, meter.used, meter.by_agent)

    def check_inputs(self, restored: Restored, inputs: Mapping[str, Any]) -> None:
        check_inputs(restored, inputs)

    def reach(self, used: Mapping[str, AgentUse]) -> None:
        inputs = self.kickoff.cell.current().get("inputs") or {}
        crew = self.entity
        at_work = [(agent, agent.tools) for agent in crew.everybody]
        at_work += [(crew.who_does(task)[0], task.tools) for task in crew.tasks if task.tools is not None]
        reach_uses(at_work, used, lambda role: fill(role, inputs))

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
