"""Flows that are written wrong say so, and how they are written right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum, auto
from functools import wraps
from typing import Any, Literal

import pytest

from holdfast import (
    Budget,
    CheckpointConfig,
    Flow,
    Runtime,
    and_,
    failed,
    gathered,
    human_feedback,
    listen,
    or_,
    router,
    start,
)
from holdfast.errors import FlowDefinitionError, StepFailedError, UsageError
from holdfast.human import ConsoleProvider
from holdfast.ports import HumanRequest
from holdfast.stores import MemoryStore


@pytest.mark.parametrize("decorator", [listen, router])
def test_a_decorator_without_its_trigger_is_refused(decorator: Any) -> None:
    """The method was left out without a word."""
    with pytest.raises(FlowDefinitionError, match=rf"write @{decorator.__name__}\(…\) above Wrong.second"):

        class Wrong(Flow[Any]):
            @start()
            def first(self) -> None: ...

            @decorator
            def second(self) -> None: ...


RESERVED = ["state", "name", "kickoff", "run_id", "checkpoint", "human", "budget", "ask", "usage", "_live"]


@pytest.mark.parametrize("name", RESERVED)
def test_a_step_cannot_take_the_name_of_what_every_flow_has(name: str) -> None:
    """It failed with "'str' object is not callable", or hid what it was called like."""

    def work(self: Any) -> None: ...

    with pytest.raises(FlowDefinitionError, match=f"Wrong.{name} cannot be a step: .* give the step another name"):
        type("Wrong", (Flow,), {name: start()(work)})


def test_every_attribute_of_a_flow_is_reserved() -> None:
    class Plain(Flow[Any]):
        @start()
        def work(self) -> None: ...

    assert vars(Plain()).keys() <= {*vars(Flow), *Flow.__annotations__}


def test_a_flow_may_override_what_it_has_and_call_it() -> None:
    class Counted(Flow[Any]):
        kickoffs = 0

        @start()
        def work(self) -> str:
            return "done"

        def kickoff(self, *given: Any, **named: Any) -> Any:
            self.kickoffs += 1
            return super().kickoff(*given, **named)

    flow = Counted()
    assert (flow.kickoff(), flow.kickoffs) == ("done", 1)


def test_a_class_may_say_what_its_runs_are_called() -> None:
    class Named(Flow[Any]):
        name = "weekly"

        @start()
        def work(self) -> None: ...

    assert (Named().name, Named(name="daily").name) == ("weekly", "daily")


def test_a_class_may_say_where_its_runs_are_written_down_what_they_may_use_and_who_is_asked() -> None:
    """What it said was passed over: runs that somebody took for durable were not."""

    class Durable(Flow[Any]):
        checkpoint = CheckpointConfig(MemoryStore())
        budget = Budget(max_tokens=3)
        human = ConsoleProvider()

        @start()
        def work(self) -> None: ...

    flow = Durable()
    assert (flow.checkpoint, flow.budget, flow.human) == (Durable.checkpoint, Durable.budget, Durable.human)
    assert Durable(checkpoint=False).checkpoint is None
    assert Durable(budget=Budget(max_tokens=9)).budget == Budget(max_tokens=9)
    flow.kickoff()
    assert Durable.from_checkpoint(str(flow.run_id)).method_outputs == [None]


class Generator(Flow[Any]):
    @start()
    def work(self) -> Iterator[int]:
        yield 1


class AsyncGenerator(Flow[Any]):
    @start()
    async def work(self) -> AsyncIterator[int]:
        yield 1


class NoSelf(Flow[Any]):
    @start()
    def work() -> None: ...  # type: ignore[misc]


class StartWants(Flow[Any]):
    @start()
    def work(self, topic: str) -> None: ...


class WantsTwo(Flow[Any]):
    @start()
    def one(self) -> int:
        return 1

    @start()
    def two(self) -> int:
        return 2

    @listen(and_(one, two))
    def both(self, one: int, two: int) -> None: ...


class WantsNamed(Flow[Any]):
    @start()
    def one(self) -> int:
        return 1

    @listen(one)
    def work(self, *, one: int) -> None: ...


class Itself(Flow[Any]):
    @start()
    def one(self) -> None: ...

    @listen("work")
    def work(self) -> None: ...


class TriesAgain(Flow[Any]):
    @start()
    def one(self) -> None: ...

    @listen(or_(one, failed("work")))
    def work(self) -> None: ...


class Twice(Flow[Any]):
    @start()
    def one(self) -> None: ...

    @listen(one)
    def work(self) -> None: ...

    @listen(work)  # type: ignore[no-redef]
    def work(self) -> None: ...


class OnlyLater(Flow[Any]):
    @start("again")
    def one(self) -> None: ...

    @router(one)
    def two(self) -> Literal["again"]:
        return "again"


class GathersOne(Flow[Any]):
    @start()
    def find(self) -> list[int]:
        return [1]

    @listen(find)
    def read(self, found: list[int]) -> list[int]:
        return found

    @listen(gathered(read))
    def add(self, read: list[int]) -> None: ...


class AsksNobody(Flow[Any]):
    @start()
    def one(self) -> None: ...

    @human_feedback("Good?")
    def two(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Generator, "Generator.work yields, .*: return a list"),
        (AsyncGenerator, "AsyncGenerator.work yields, .*: return a list"),
        (NoSelf, "NoSelf.work has no `self`"),
        (StartWants, "nothing gives it 'topic': read inputs from self.state"),
        (WantsTwo, "wants one, two, but a step is given one value.*leave theirs in self.state"),
        (WantsNamed, "wants one, but a step is given one value"),
        (Itself, "Itself.work listens to itself"),
        (TriesAgain, "TriesAgain.work listens to itself"),
        (Twice, "Twice.work listens to itself"),
        (OnlyLater, r"no @start\(\) method, or only when something happened.*: add one"),
        (GathersOne, r"gathered\(read\), but read does not run for each item.*@listen\(each\(…\)\) above read"),
        (AsksNobody, "AsksNobody.two has @human_feedback, but nothing triggers it"),
    ],
)
def test_what_could_not_run_as_it_is_written_is_refused(kind: type[Flow[Any]], message: str) -> None:
    with pytest.raises(FlowDefinitionError, match=message):
        kind().kickoff()


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda: human_feedback(lambda self: None), r"write @human_feedback\(…\) with the question"),  # type: ignore[arg-type]
        (lambda: human_feedback("Good?", emit="approved"), r"emit takes several routes: emit=\['approved', …\]"),
    ],
)
def test_feedback_that_is_asked_for_wrong_is_refused(decorate: Callable[[], object], message: str) -> None:
    """Without parentheses, the method's result was the flow itself, and nobody was asked."""
    with pytest.raises(FlowDefinitionError, match=message):
        decorate()


def test_who_cannot_ask_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot ask anybody: give an object with a method request\(request\)"):
        Flow(human=lambda request: "yes")  # type: ignore[arg-type]


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"budget=3 says not of what: write Budget\(max_cost_usd=…\)"):
        Flow(budget=3)  # type: ignore[arg-type]


def test_an_init_of_its_own_that_forgets_the_flows_is_told() -> None:
    class Forgetful(Flow[Any]):
        def __init__(self) -> None:
            self.city = "Oslo"

        @start()
        def work(self) -> None: ...

    with pytest.raises(UsageError, match=r"Forgetful.__init__ must call super\(\).__init__\(\)"):
        Forgetful().kickoff()


def test_what_may_be_written_is_not_refused(runtime: Runtime) -> None:
    """Parameters with a default, and those that take whatever comes."""

    class Fine(Flow[Any]):
        @start()
        def begin(self, topic: str = "whales", **options: Any) -> str:
            return topic

        @listen(begin)
        def take(self, *given: str) -> str:
            return given[0]

        @listen(take)
        def end(self, given: Any, times: int = 2) -> str:
            return str(given) * times

    assert Fine(runtime=runtime).kickoff() == "whaleswhales"


# -- routes ----------------------------------------------------------------------------------------------------------


class Way(Enum):
    LEFT = auto()
    RIGHT = auto()


class Routes(Flow[Any]):
    result: Any = None

    @start()
    def begin(self) -> None: ...

    @listen("left")
    def go_left(self) -> str:
        return "went left"

    @listen(Way.LEFT)
    def go_by_number(self) -> str:
        return "went by number"


class Undeclared(Routes):
    @router(Routes.begin)
    def choose(self) -> Any:
        return self.result


class AsyncUndeclared(Routes):
    @router(Routes.begin)
    async def choose(self) -> Any:
        return self.result


class Declared(Routes):
    @router(Routes.begin)
    def choose(self) -> Literal["left", "1"]:
        return self.result  # type: ignore[no-any-return]


class DeclaredByEnum(Flow[Any]):
    @start()
    def begin(self) -> None: ...

    @router(begin)
    def choose(self) -> Way:
        return Way.LEFT

    @listen(Way.LEFT)
    def go_left(self) -> str:
        return "went left"


def test_an_enum_whose_values_are_numbers_is_a_route() -> None:
    """Its listener waited for ever: the route of a value that is no text was none."""
    assert DeclaredByEnum().kickoff() == "went left"


@pytest.mark.parametrize("kind", [Undeclared, AsyncUndeclared])
@pytest.mark.parametrize(("result", "end"), [("left", "went left"), (Way.LEFT, "went by number"), (None, None)])
def test_a_router_takes_a_string_an_enum_or_none(kind: type[Routes], result: Any, end: Any) -> None:
    flow = kind()
    flow.result = result
    assert flow.kickoff() == end


@pytest.mark.parametrize(
    ("kind", "result", "message"),
    [
        (Undeclared, 7, "router choose returned a int; return the route to take"),
        (AsyncUndeclared, 7, "router choose returned a int; return the route to take"),
        (Declared, "right", "router choose returned 'right', but declares the routes left, 1: correct what it returns"),
    ],
)
def test_a_result_that_is_no_route_of_a_router_fails_the_flow_in_words(
    kind: type[Routes], result: Any, message: str
) -> None:
    """The flow ended there as if all were done."""
    flow = kind()
    flow.result = result
    with pytest.raises(StepFailedError, match=message):
        flow.kickoff()


def test_a_method_that_returns_a_coroutine_by_mistake_fails_in_words() -> None:
    def logged(method: Any) -> Any:
        @wraps(method)
        def call(self: Any) -> Any:
            return method(self)

        return call

    class Wrapped(Flow[Any]):
        @start()
        @logged
        async def work(self) -> str:
            return "done"

    with pytest.raises(StepFailedError, match="step work is no `async def` and returned a coroutine"):
        Wrapped().kickoff()


# -- subclasses --------------------------------------------------------------------------------------------------------


class Person:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    def request(self, request: HumanRequest) -> str:
        self.asked.append(request.output)
        return "good"


class Asks(Flow[Any]):
    @start()
    @human_feedback("Good?")
    def write(self) -> str:
        return "text"


def test_a_subclass_that_overrides_a_method_still_asks_the_person() -> None:
    """The gate was dropped without a word, and what a person was to see went out unseen."""

    class Better(Asks):
        def write(self) -> str:
            return "better text"

    person = Person()
    Better(human=person).kickoff()
    assert person.asked == ["better text"]


def test_a_subclass_that_decorates_it_anew_says_itself_whether_it_asks() -> None:
    class Bold(Asks):
        @start()
        def write(self) -> str:
            return "bold text"

    person = Person()
    assert Bold(human=person).kickoff() == "bold text"
    assert person.asked == []
