from __future__ import annotations

import asyncio

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.server.site import Site

from holdfast import Agent, Crew, Flow, Runtime, Task, start
from holdfast.models import ScriptedModel, ToolCall
from holdfast.server import trace_runs
from holdfast.tools import tool


def recording() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def paths(spans: tuple[ReadableSpan, ...]) -> set[str]:
    """Each span after those around it."""
    by_id = {span.context.span_id: span for span in spans if span.context is not None}

    def path(span: ReadableSpan) -> str:
        around = by_id.get(span.parent.span_id) if span.parent is not None else None
        return f"{path(around)} > {span.name}" if around is not None else span.name

    return {path(span) for span in spans}


async def test_a_job_is_one_trace_from_its_run_to_its_steps(site: Site) -> None:
    provider, exporter = recording()
    tracing = trace_runs(site.project.runtime.event_bus, provider.get_tracer("test"))
    job_id = await site.submit("hello", who="s3cr3t")
    await site.settled(job_id)
    tracing.close()
    spans = exporter.get_finished_spans()
    assert "run hello > job hello > step greet" in paths(spans)
    assert len({span.context.trace_id for span in spans if span.context is not None}) == 1
    assert all(span.attributes is not None and span.attributes["holdfast.outcome"] == "completed" for span in spans)
    assert "s3cr3t" not in "".join(span.to_json() for span in spans)


async def test_model_and_tool_calls_are_inside_the_agent_that_makes_them(runtime: Runtime) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    provider, exporter = recording()
    tracing = trace_runs(runtime.event_bus, provider.get_tracer("test"))
    model = ScriptedModel([[ToolCall("1", "add", '{"a": 1, "b": 2}')], "it is 3"], name="demo:m")
    agent = Agent(role="adder", goal="add", backstory="", llm=model, tools=[add])

    async def body(run: object) -> object:
        return await agent.akickoff("what is 1 + 2?")

    await runtime.arun(body, name="outer")
    tracing.close()
    found = paths(exporter.get_finished_spans())
    assert any(path.endswith("llm demo:m") for path in found), found
    assert any(path.endswith("tool add") for path in found), found
    assert all(path.startswith("run outer") for path in found), found


async def test_every_span_is_named_after_what_it_is_of(runtime: Runtime) -> None:
    """A method was called after its flow, and an agent after its task."""
    provider, exporter = recording()
    tracing = trace_runs(runtime.event_bus, provider.get_tracer("test"))
    agent = Agent(role="writer", goal="write", backstory="", llm=ScriptedModel(["it is done"], name="demo:m"))
    task = Task(name="page one", description="write", expected_output="a page", agent=agent)

    class Book(Flow[dict[str, object]]):
        @start()
        async def first_page(self) -> None:
            await Crew(name="authors", agents=[agent], tasks=[task]).akickoff()

    await Book(runtime=runtime).akickoff()
    tracing.close()
    longest = max(paths(exporter.get_finished_spans()), key=len)
    assert longest == (
        "run Book > flow Book > method first_page > run authors > crew authors > task page one > run writer > "
        "agent writer > llm demo:m"
    )


class Fails(Flow[dict[str, object]]):
    @start()
    async def one(self) -> None:
        raise ValueError("the password is s3cr3t")


async def test_a_failure_is_marked_and_what_it_says_stays_here(runtime: Runtime) -> None:
    provider, exporter = recording()
    tracing = trace_runs(runtime.event_bus, provider.get_tracer("test"))

    async def body(run: object) -> None:
        await Fails().akickoff()

    run = runtime.start(body)
    await asyncio.wait({asyncio.ensure_future(_ended(run))})
    tracing.close()
    spans = exporter.get_finished_spans()
    failed = [span for span in spans if not span.status.is_ok]
    assert failed
    assert "s3cr3t" not in "".join(span.to_json() for span in spans)


async def _ended(run: object) -> None:
    try:
        await run  # type: ignore[misc]
    except Exception:
        return
