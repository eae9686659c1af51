"""Doing one task: from its prompt to an output that counts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from holdfast.agents._agent import Agent
from holdfast.agents._delegation import coworker_tools
from holdfast.agents._filling import fill
from holdfast.agents._outputs import AgentOutput, TaskOutput
from holdfast.agents._prompts import refused_prompt, revised_prompt, task_prompt
from holdfast.agents._task import Task
from holdfast.agents._work import AgentFront
from holdfast.context import is_async_callable
from holdfast.errors import GuardrailError
from holdfast.events.families.task import (
    LLMGuardrailCompletedEvent,
    LLMGuardrailFailedEvent,
    LLMGuardrailStartedEvent,
)
from holdfast.ids import new_id
from holdfast.kickoff import Asking
from holdfast.ports import HumanProvider, Usage
from holdfast.runs import Run
from holdfast.threads import done_here
from holdfast.tools import BaseTool

if TYPE_CHECKING:
    from holdfast.agents._crew import Crew

ACCEPTED = ("", "ok", "okay", "yes", "y", "approve", "approved", "accept", "accepted", "lgtm", "looks good")


class Doing:
    """Does the tasks of one run of a crew."""

    def __init__(self, run: Run, crew: Crew, inputs: Mapping[str, Any], asking: Asking, human: HumanProvider) -> None:
        self._run = run
        self._crew = crew
        self._inputs = inputs
        self._asking = asking
        self._human = human

    async def do(self, task: Task, previous: TaskOutput | None, context: Sequence[TaskOutput]) -> TaskOutput:
        """The task's output, once it counts. Raises GuardrailError if it never does."""
        if task.condition is not None and not await self._call(task.condition, previous):
            return TaskOutput("", name=task.name, description=self._fill(task.description), is_skipped=True)
        told = "\n\n".join(f"{one.name or one.agent_role}:\n{one.raw}" for one in context if not one.is_skipped)
        prompt = task_prompt(self._fill(task.description), self._fill(task.expected_output), told)
        output = await self._judged(task, prompt, await self._work(task, prompt, Usage()))
        if task.human_input:
            output = await self._revised(task, prompt, output)
        if task.output_file:
            await asyncio.to_thread(_write, Path(self._fill(task.output_file)), output.raw)
        for callback in (task.callback, self._crew.task_callback):
            if callback is not None:
                await self._call(callback, output)
        return output

    # -- who does it -------------------------------------------------------------------------------------------------

    async def _work(self, task: Task, prompt: str, used: Usage) -> TaskOutput:
        agent, coworkers = self._crew.who_does(task)
        said = await self._ask(agent, prompt, task, coworkers)
        form = said.pydantic
        return TaskOutput(
            said.raw,
            pydantic=form if task.output_pydantic else None,
            json_dict=form.model_dump(mode="json") if task.output_json else None,
            name=task.name,
            description=self._fill(task.description),
            agent_role=said.agent_role,
            usage=used + said.usage,
        )

    async def _ask(
        self, agent: Agent, prompt: str, task: Task | None = None, coworkers: Sequence[Agent] = ()
    ) -> AgentOutput:
        """Let an agent work, as a run inside this one."""
        told = {name: self._fill(getattr(agent, name)) for name in ("role", "goal", "backstory")}
        filled = agent.model_copy(update=told)
        form = task.form if task is not None else None
        tools: list[BaseTool] = coworker_tools(coworkers, self._delegate)
        work = filled.work(filled.first_messages(prompt, form), form=form, more_tools=tools)
        if task is not None and task.tools is not None:
            work = replace(work, tools=(*task.tools, *tools))
        front = AgentFront(filled, agent.resolve_llm(self._crew.limits), work)
        return cast(AgentOutput, await agent.starter.astart(front, front.inputs, None, streamed=False))

    async def _delegate(self, agent: Agent, prompt: str) -> str:
        return (await self._ask(agent, prompt)).raw

    # -- whether it counts -------------------------------------------------------------------------------------------

    async def _judged(self, task: Task, prompt: str, output: TaskOutput) -> TaskOutput:
        retries = 0
        while True:
            output, why = await self._verdict(task, output, retries)
            if why is None:
                return output
            if retries >= task.guardrail_max_retries:
                raise GuardrailError(
                    f"the output of task {task.title!r} was refused {retries + 1} times, the last time because: {why}"
                )
            retries += 1
            output = await self._work(task, f"{prompt}\n\n{refused_prompt(output.raw, why)}", output.usage)

    async def _verdict(self, task: Task, output: TaskOutput, retries: int) -> tuple[TaskOutput, Any]:
        """The output as the guardrails let it pass, and None; or why one does not."""
        for judge in task.judges:
            name = getattr(judge, "__name__", type(judge).__name__)
            self._run.tell(LLMGuardrailStartedEvent, guardrail=name, retry_count=retries)
            try:
                passed, value = await self._call(judge, output)
            except Exception as error:
                told = {"error": str(error), "error_type": type(error).__name__}
                self._run.tell(LLMGuardrailFailedEvent, guardrail=name, retry_count=retries, **told)
                raise
            why = "" if passed else str(value)
            self._run.tell(
                LLMGuardrailCompletedEvent, guardrail=name, success=bool(passed), error=why, retry_count=retries
            )
            if not passed:
                return output, value
            if isinstance(value, TaskOutput):
                output = value
            elif isinstance(value, str):
                output = replace(output, raw=value)
        return output, None

    async def _revised(self, task: Task, prompt: str, output: TaskOutput) -> TaskOutput:
        """The output as a person lets it pass."""
        while True:
            about = {"output": output.raw, "metadata": {"task": task.title}}
            request = self._asking.request("feedback", "Is this good? If not, say what to change.", None, **about)
            answer = await self._asking.aask(request, self._human)
            if answer is None or answer.strip().rstrip(".!").casefold() in ACCEPTED:
                return output
            again = f"{prompt}\n\n{revised_prompt(output.raw, answer)}"
            output = await self._judged(task, prompt, await self._work(task, again, output.usage))

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _fill(self, text: str) -> str:
        return fill(text, self._inputs)

    async def _call(self, function: Any, *args: Any) -> Any:
        """Call a function of the user's: an async one here, another in a thread."""
        if is_async_callable(function):
            return await function(*args)
        thread = self._run.host.threads.submit(copy_context(), function, *args)
        await done_here(thread)
        given = thread.result()
        return await given if inspect.isawaitable(given) else given


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{new_id()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
