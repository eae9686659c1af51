"""Flows that ask people."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    CheckpointConfig,
    Flow,
    HumanFeedbackResult,
    Pending,
    Runtime,
    human_feedback,
    listen,
    or_,
    router,
    start,
)
from holdfast.checkpoints import JsonProvider
from holdfast.errors import AnswerPendingError, FlowDefinitionError, FlowInputError, SyncInAsyncError, UsageError
from holdfast.events import HumanFeedbackReceivedEvent, HumanFeedbackRequestedEvent
from holdfast.human import LaterProvider
from holdfast.ports import HumanRequest
from holdfast.stores import SqliteStore
from holdfast.testing import ManualClock


class Says:
    """A person who gives these answers, in this order."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[HumanRequest] = []

    def request(self, request: HumanRequest) -> str:
        self.asked.append(request)
        return self.answers.pop(0)


class SaysInTime(Says):
    async def request(self, request: HumanRequest) -> str:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().request(request)


class Review(Flow[dict[str, Any]]):
    calls: list[str]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls = []

    @start()
    @human_feedback("Is it good?", emit=["approved", "rejected"], default_outcome="rejected")
    def draft(self) -> str:
        self.calls.append("draft")
        self.state["text"] = "hello"
        return "hello"

    @listen("approved")
    def publish(self, said: HumanFeedbackResult) -> str:
        self.calls.append("publish")
        return f"{said.output} / {said.feedback} / {self.state['text']}"

    @listen("rejected")
    def drop(self, said: HumanFeedbackResult) -> str:
        self.calls.append("drop")
        return f"dropped: {said.feedback}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "journal.db") as store:
        yield store


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ("Approved!", "hello / Approved! / hello"),
        ("yes, approved as it is", "hello / yes, approved as it is / hello"),
        ("REJECTED", "dropped: REJECTED"),
        ("hm", "dropped: hm"),
        ("", "dropped: "),
    ],
)
@pytest.mark.parametrize("person", [Says, SaysInTime])
def test_feedback_decides_the_route_and_its_listener_gets_it(
    person: type[Says], said: str, result: str, runtime: Runtime
) -> None:
    someone = person(said)
    flow = Review(human=someone, runtime=runtime)
    assert flow.kickoff() == result
    [asked] = someone.asked
    assert (asked.output, asked.options, asked.method_name) == ("hello", ("approved", "rejected"), "draft:feedback")
    assert flow.last_human_feedback is not None
    assert flow.last_human_feedback.feedback == said


async def test_the_same_on_a_loop(runtime: Runtime) -> None:
    assert await Review(human=SaysInTime("approved"), runtime=runtime).akickoff() == "hello / approved / hello"
    assert await Review(human=Says("approved"), runtime=runtime).akickoff() == "hello / approved / hello"


def test_an_answer_that_leads_nowhere_fails_the_flow_in_words(runtime: Runtime) -> None:
    class Strict(Flow[dict[str, Any]]):
        @start()
        @human_feedback("Which?", emit=["left", "right"])
        def choose(self) -> str:
            return "?"

    with pytest.raises(FlowInputError, match="'up' is none of left, right"):
        Strict(human=Says("up"), runtime=runtime).kickoff()


def test_without_routes_the_listener_gets_what_was_said(runtime: Runtime) -> None:
    class Plain(Flow[dict[str, Any]]):
        @start()
        @human_feedback("Any remarks?", metadata={"to": "editor"})
        async def draft(self) -> str:
            return "text"

        @listen(draft)
        def use(self, said: HumanFeedbackResult) -> list[Any]:
            return [said.output, said.feedback, said.outcome, said.metadata]

    flow = Plain(human=Says("shorter"), runtime=runtime)
    assert flow.kickoff() == ["text", "shorter", None, {"to": "editor"}]
    assert [result.feedback for result in flow.human_feedback_history] == ["shorter"]


def test_a_decorator_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(FlowDefinitionError, match="below @start"):

        @human_feedback("?")
        @start()
        def draft(self: Any) -> str:
            return ""

    with pytest.raises(FlowDefinitionError, match="must be one of"):
        human_feedback("?", emit=["a"], default_outcome="b")


def test_a_run_that_must_wait_is_put_down_and_resumed_with_the_answer(store: SqliteStore, runtime: Runtime) -> None:
    told: list[HumanRequest] = []
    config = CheckpointConfig(store)
    flow = Review(human=LaterProvider(told.append), checkpoint=config, runtime=runtime)
    pending = flow.kickoff()
    assert isinstance(pending, Pending)
    assert [request.message for request in pending.requests] == ["Is it good?"]
    [run] = asyncio.run(store.runs())
    assert (run.status, run.held_until_us, run.root_run_id) == ("waiting", 0, pending.run_id)
    assert runtime.runs() == []

    later = Review.from_pending(pending.run_id, checkpoint=config, runtime=runtime)
    assert [request.id for request in later.pending] == [told[0].id]
    assert later.state["text"] == "hello"
    assert later.resume("approved, thanks") == "hello / approved, thanks / hello"
    assert later.calls == ["publish"]
    [run] = asyncio.run(store.runs())
    assert run.status == "completed"


async def test_the_live_object_resumes_too(store: SqliteStore, runtime: Runtime) -> None:
    flow = Review(human=LaterProvider(), checkpoint=CheckpointConfig(store), runtime=runtime)
    assert isinstance(await flow.akickoff(), Pending)
    assert await flow.aresume("approved") == "hello / approved / hello"
    assert flow.calls == ["draft", "publish"]


def test_a_run_that_is_taken_up_without_an_answer_waits_again_and_asks_once(
    store: SqliteStore, runtime: Runtime
) -> None:
    asked: list[str] = []
    requested: list[str] = []

    @runtime.event_bus.on(HumanFeedbackRequestedEvent)
    def note(source: object, event: HumanFeedbackRequestedEvent) -> None:
        requested.append(event.request_id)

    config = CheckpointConfig(store)
    person = LaterProvider(lambda request: asked.append(request.id))
    first = Review(human=person, checkpoint=config, runtime=runtime).kickoff()
    again = Review(human=person, checkpoint=config, runtime=runtime).kickoff(from_checkpoint=first.run_id)
    assert isinstance(again, Pending)
    assert asked[0] == asked[1]  # the same question, so whoever is asked can tell
    assert len(requested) == 1  # and it is told of once
    resumed = Review.from_pending(first.run_id, checkpoint=config, runtime=runtime)
    assert resumed.resume("approved") == "hello / approved / hello"


def test_events_of_a_question_are_linked_across_processes(store: SqliteStore, runtime: Runtime) -> None:
    config = CheckpointConfig(store)
    opened: list[str] = []
    closed: list[str | None] = []

    @runtime.event_bus.on(HumanFeedbackRequestedEvent)
    def note_opened(source: object, event: HumanFeedbackRequestedEvent) -> None:
        opened.append(event.event_id)

    @runtime.event_bus.on(HumanFeedbackReceivedEvent)
    def note_closed(source: object, event: HumanFeedbackReceivedEvent) -> None:
        closed.append(event.started_event_id)

    pending = Review(human=LaterProvider(), checkpoint=config, runtime=runtime).kickoff()
    Review.from_pending(pending.run_id, checkpoint=config, runtime=runtime).resume("approved")
    assert closed == opened


class Asks(Flow[dict[str, Any]]):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[str] = []

    @start()
    def greet(self) -> str:
        name = self.ask("Who are you?")
        self.calls.append(f"name {name}")
        age = self.ask("How old?", timeout=60.0)
        self.calls.append(f"age {age}")
        return f"{name} {age}"

    @start()
    async def other(self) -> str:
        return str(await self.aask("And you?"))


def test_ask_returns_what_was_said(runtime: Runtime) -> None:
    class One(Flow[dict[str, Any]]):
        @start()
        def greet(self) -> str:
            return f"{self.ask('Who?')} {self.ask('What?')}"

    assert One(human=Says("Ann", "tea"), runtime=runtime).kickoff() == "Ann tea"


def test_several_questions_are_answered_one_by_one_and_none_is_asked_twice(
    store: SqliteStore, runtime: Runtime
) -> None:
    config = CheckpointConfig(store)
    pending = Asks(human=LaterProvider(), checkpoint=config, runtime=runtime).kickoff()
    assert sorted(request.message for request in pending.requests) == ["And you?", "Who are you?"]

    def answer(message: str, text: str) -> Any:
        flow = Asks.from_pending(pending.run_id, checkpoint=config, runtime=runtime, human=LaterProvider())
        with pytest.raises(UsageError, match="say which question"):
            flow.resume("?", request_id="no such")
        [question] = [request for request in flow.pending if request.message == message]
        return flow.resume(text, request_id=question.id), flow.calls

    still, calls = answer("Who are you?", "Ann")
    assert (isinstance(still, Pending), calls) == (True, ["name Ann"])
    still, _ = answer("And you?", "Bob")
    assert isinstance(still, Pending)
    result, calls = answer("How old?", "30")
    assert calls == ["name Ann", "age 30"]
    assert result == "Ann 30"


class Twice(Flow[dict[str, Any]]):
    """Two gates, one after the other, and a way to read afterwards what was said at both."""

    loops = 0

    @start()
    @human_feedback("First?")
    def first(self) -> str:
        return "1"

    @listen(first)
    def between(self) -> None:
        self.state["rounds"] = 0

    @listen(or_(between, "again"))
    def spin(self) -> None:
        self.state["rounds"] += 1

    @router(spin)
    def enough(self) -> str:
        return "again" if self.state["rounds"] < self.loops else "done"

    @listen("done")
    @human_feedback("Second?")
    def second(self) -> str:
        return f"2 after {self.said()}"

    @listen(second)
    def end(self) -> list[str]:
        return self.said()

    def said(self) -> list[str]:
        last = self.last_human_feedback
        assert last == self.human_feedback_history[-1]
        return [said.feedback for said in self.human_feedback_history]


@pytest.mark.parametrize("loops", [1, 50])
def test_after_a_resume_a_flow_knows_what_people_said_before(loops: int, store: SqliteStore, runtime: Runtime) -> None:
    """`last_human_feedback` was None and the history empty, whatever had been said."""
    config = CheckpointConfig(store)

    class Spins(Twice):
        pass

    Spins.loops = loops

    def taken_up(answer: str) -> Any:
        [run] = asyncio.run(store.runs())
        flow = Spins.from_pending(run.root_run_id, checkpoint=config, runtime=runtime, human=LaterProvider())
        return flow.resume(answer)

    Spins(human=LaterProvider(), checkpoint=config, runtime=runtime).kickoff()
    [question] = taken_up("yes").requests
    assert question.output == "2 after ['yes']"
    assert taken_up("no") == ["yes", "no"]


async def test_ask_inside_an_async_method_names_its_twin(runtime: Runtime) -> None:
    class Wrong(Flow[dict[str, Any]]):
        @start()
        async def greet(self) -> str | None:
            return self.ask("Who?")

    with pytest.raises(SyncInAsyncError, match="aask"):
        await Wrong(runtime=runtime).akickoff()
    with pytest.raises(UsageError, match="inside one"):
        await Wrong(runtime=runtime).aask("Who?")


async def test_a_question_that_nobody_answers_in_time_has_no_answer() -> None:
    clock = ManualClock()
    with Runtime(clock=clock) as runtime:
        asked = threading.Event()

        class Nobody:
            async def request(self, request: HumanRequest) -> str:
                asked.set()
                await asyncio.Event().wait()
                return "never"

        class Waits(Flow[dict[str, Any]]):
            @start()
            async def greet(self) -> str | None:
                return await self.aask("Who?", timeout=5.0)

        task = asyncio.create_task(Waits(human=Nobody(), runtime=runtime).akickoff())
        await asyncio.to_thread(asked.wait)
        clock.advance(6.0)
        assert await task is None
        await runtime.aclose()


def test_a_question_of_a_flow_inside_another_puts_both_down(store: SqliteStore, runtime: Runtime) -> None:
    class Outer(Flow[dict[str, Any]]):
        before = 0

        @start()
        def prepare(self) -> str:
            type(self).before += 1
            return "ready"

        @listen(prepare)
        def inside(self) -> Any:
            return Review(human=LaterProvider()).kickoff()

        @listen(inside)
        def after(self, given: Any) -> str:
            return f"after {given}"

    config = CheckpointConfig(store)
    pending = Outer(checkpoint=config, runtime=runtime).kickoff()
    assert [request.flow_name for request in pending.requests] == ["Review"]
    later = Outer.from_pending(pending.run_id, checkpoint=config, runtime=runtime)
    assert later.resume("approved") == "after hello / approved / hello"
    assert Outer.before == 1


def test_the_picture_shows_the_gate() -> None:
    assert '{"draft#58;feedback"}' in Review.to_mermaid()  # a colon means something to Mermaid


def test_a_provider_may_raise_pending_by_itself(store: SqliteStore, runtime: Runtime) -> None:
    class Chat:
        def request(self, request: HumanRequest) -> str:
            raise AnswerPendingError

    pending = Review(human=Chat(), checkpoint=CheckpointConfig(store), runtime=runtime).kickoff()
    assert isinstance(pending, Pending)


def test_a_flow_that_is_not_written_down_is_once_it_has_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Runtime() as runtime:
        assert Review(human=Says("approved"), runtime=runtime).kickoff() == "hello / approved / hello"
        assert not (tmp_path / ".holdfast").exists()  # nobody had to wait
        live = Review(human=LaterProvider(), runtime=runtime)
        pending = live.kickoff()
        assert isinstance(pending, Pending)
    with Runtime() as runtime:
        [run] = asyncio.run(runtime.store.runs())
        assert run.status == "waiting"
        later = Review.from_pending(pending.run_id, runtime=runtime)
        assert later.resume("approved") == "hello / approved / hello"
        assert later.calls == ["publish"]


async def test_the_live_object_of_such_a_flow_resumes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Runtime() as runtime:

        class Waits(Flow[dict[str, Any]]):
            @start()
            async def greet(self) -> str:
                return f"hello {await self.aask('Who?')}"

        flow = Waits(human=LaterProvider(), runtime=runtime)
        assert isinstance(await flow.akickoff(), Pending)
        assert await flow.aresume("Ann") == "hello Ann"


def test_a_flow_that_cannot_be_put_down_says_so(runtime: Runtime) -> None:
    class Outer(Flow[dict[str, Any]]):
        @start()
        def inside(self) -> Any:
            return Review(human=LaterProvider()).kickoff()

    with pytest.raises(UsageError, match="checkpoint=True"):
        Outer(runtime=runtime).kickoff()


def test_with_json_files_a_run_that_waits_is_in_a_file(tmp_path: Path, runtime: Runtime) -> None:
    config = CheckpointConfig(JsonProvider(tmp_path))
    live = Review(human=LaterProvider(), checkpoint=config, runtime=runtime)
    pending = live.kickoff()
    assert live.resume("approved") == "hello / approved / hello"
    other = Review(human=LaterProvider(), checkpoint=config, runtime=runtime)
    pending = other.kickoff()
    later = Review.from_pending(pending.run_id, checkpoint=config, runtime=runtime)
    assert [request.message for request in later.pending] == ["Is it good?"]
    assert later.resume("rejected") == "dropped: rejected"
