"""Agents and crews as programs that die where they are told to.

`python -m tests.agents.stories` imports what they need once, and then forks a process for each line of its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast import Agent, BaseEvent, CheckpointConfig, Crew, Flow, Process, Runtime, Task, listen, start, tool
from holdfast.checkpoints import restore
from holdfast.models import ProviderModel, UserMessage, dump_messages
from holdfast.stores import SqliteStore
from holdfast.testing import CrashingStore, CrashPoint, ModelServer, kill_process

Kind = Literal["agent", "crew", "flow", "managed", "pair"]
PROMPT = "Note a, b and c."


class Life(Struct, frozen=True):
    """What one process is to do: go on with the run in a folder, and die at a write."""

    folder: str
    kind: Kind
    url: str
    point: CrashPoint | None = None
    event: str = ""
    """die when an event of this type and task is told of: `llm_call_started two`"""


@tool(max_usage_count=9)
def note(text: str) -> str:
    """Notes something."""
    with Path("effects").open("a") as file:
        file.write(f"{text}\n")
    return f"noted {text}"


def model(life: Life, protocol: str = "openai") -> ProviderModel:
    if protocol == "openai":
        return ProviderModel("openai:gpt-4o", base_url=f"{life.url}/v1")
    return ProviderModel("anthropic:claude-opus-5", base_url=life.url)


def make_agent(life: Life, **options: Any) -> Agent:
    return Agent(role="Clerk", llm=model(life), tools=[note], **options)


def make_crew(life: Life, **options: Any) -> Crew:
    """Two agents of one role, two tasks at once, one that is skipped, one at the end."""
    first, second = make_agent(life), Agent(role="Clerk", llm=model(life, "anthropic"), tools=[note])
    tasks = [
        Task(name="left", description=PROMPT, agent=first, async_execution=True),
        Task(name="right", description="Say {word}.", agent=second, async_execution=True),
        Task(name="never", description="Never.", agent=second, condition=never),
        Task(name="join", description="Sum up.", agent=second),
    ]
    return Crew(name="Office", tasks=tasks, **options)


def make_pair(life: Life, **options: Any) -> Crew:
    """Two tasks, one after the other, by models of two providers."""
    first, second = make_agent(life), Agent(role="Other", llm=model(life, "anthropic"))
    tasks = [
        Task(name="one", description="Say {word}.", agent=first),
        Task(name="two", description="Sum up.", agent=second, context=[]),
    ]
    return Crew(name="Pair", tasks=tasks, **options)


def never(output: Any) -> bool:
    return False


def make_managed(life: Life, **options: Any) -> Crew:
    return Crew(
        name="Office", agents=[make_agent(life)], tasks=[Task(name="only", description="Have it noted.")],
        process=Process.hierarchical, manager_llm=model(life, "anthropic"), **options,
    )  # fmt: skip


class Outer(Flow[dict[str, Any]]):
    """A crew inside a step of a flow."""

    def __init__(self, life: Life, **options: Any) -> None:
        super().__init__(**options)
        self.life = life

    @start()
    def begin(self) -> str:
        return "hello"

    @listen(begin)
    async def work(self, word: str) -> str:
        output = await make_crew(self.life).akickoff({"word": word})
        self.state["requests"] = output.usage.requests
        return str(output.raw)

    @listen(work)
    def end(self, raw: str) -> str:
        return f"{raw}!"


# -- one life ----------------------------------------------------------------------------------------------------------


def live(life: Life) -> None:
    """Go on with the run in the folder to its end, and tell of it."""
    os.chdir(life.folder)
    with SqliteStore("journal.db") as real, Runtime(grace=5.0) as runtime:
        store = CrashingStore(real, life.point)
        config = CheckpointConfig(store)

        @runtime.event_bus.on(BaseEvent)
        def die(source: object, event: BaseEvent) -> None:
            if f"{event.type} {event.task_name}" == life.event:
                kill_process(life.event)

        outcome = go_on(life, config, runtime, next(iter(asyncio.run(real.runs())), None))
        outcome["writes"] = len(store.writes)
        Path("outcome").write_text(json.dumps(outcome))


def go_on(life: Life, config: CheckpointConfig, runtime: Runtime, run: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"checkpoint": config, "runtime": runtime}
    store: Any = config.store
    begun = run is not None and asyncio.run(restore(store, run.root_run_id)).is_begun
    if run is not None and run.status == "completed":  # it died when all was done
        return {}
    if life.kind == "flow":
        flow = Outer(life, **options)
        raw = flow.kickoff(from_checkpoint=run.root_run_id if run else None)
        return {"raw": raw, "requests": flow.state["requests"]}
    if life.kind == "agent":
        agent = make_agent(life, **options) if run is None else Agent.from_checkpoint(run.root_run_id, **options)
        output = agent.kickoff(None if begun else PROMPT)
        uses = agent.tools[0].usage_count
        return {
            "raw": output.raw,
            "requests": output.usage.requests,
            "messages": said(agent),
            "uses": uses,
        }
    make = {"crew": make_crew, "managed": make_managed, "pair": make_pair}[life.kind]
    crew = make(life, **options) if run is None else Crew.from_checkpoint(run.root_run_id, **options)
    whole = crew.kickoff(None if begun else {"word": "hello"})
    requests = {role: used.requests for role, used in whole.usage_by_agent.items()}
    tasks = [(one.raw, one.usage.requests) for one in whole.tasks_output]
    uses = crew.agents[0].tools[0].usage_count
    return {"raw": whole.raw, "requests": requests, "tasks": tasks, "uses": uses}


def said(agent: Agent) -> list[Any]:
    """Its messages without what a provider makes up for each answer."""

    def known(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: known(inner) for key, inner in value.items() if key not in ("origin", "id", "call_id")}
        return [known(inner) for inner in value] if isinstance(value, list | tuple) else value

    return [known(message) for message in dump_messages(agent.messages)]


def serve() -> None:
    """Live each life that is told on standard input in a process of its own, and say how it ended."""
    _set_keys()
    _warm_up()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _be_child(line)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _set_keys() -> None:
    os.environ |= {"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-y"}


def _warm_up() -> None:
    """Ask each provider once, so that the forks find their clients ready to be made. No thread is left."""
    with ModelServer(["hello", "hello"]) as server:
        for protocol in ("openai", "anthropic"):
            asyncio.run(model(Life("", "agent", server.url), protocol).request([UserMessage("hi")]))


def _be_child(line: str) -> None:
    code = 1
    try:
        live(msgspec.json.decode(line, type=Life))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
