"""The scheduler of a job: the one that every graph has, which also listens to what is asked of the job from outside."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.checkpoints import RunLog, failed_outputs
from holdfast.context import Position, at
from holdfast.errors import AnswerPendingError, ExpressionError, JobFailedError, JobLimitError, JobStepError
from holdfast.events.families.exit import (
    ExitAbandonedEvent,
    ExitAdvancedEvent,
    ExitEscalatedEvent,
    ExitEvaluationFailedEvent,
    ExitLoopedEvent,
    ExitUnmatchedEvent,
)
from holdfast.events.families.job import JobLimitExceededEvent, JobPausedEvent, JobResumedEvent
from holdfast.events.families.step import StepRerunRequestedEvent, StepRetryScheduledEvent, StepSkippedEvent
from holdfast.graph import (
    Cancelled,
    Command,
    Complete,
    Completed,
    Execution,
    Fail,
    Failed,
    Graph,
    GraphState,
    Judge,
    Outcome,
    Park,
    Paused,
    Rerun,
    Resumed,
    Scheduler,
    Skip,
    Skipped,
    Start,
    Verdict,
    Waiting,
    attempt_of,
    current_results,
    decide,
    evolve,
    judge,
    rounds_of,
    wake,
)
from holdfast.jobs._alarm import Alarm, first_due
from holdfast.jobs._binding import MISSING, find
from holdfast.jobs._calls import ask_id
from holdfast.jobs._categories import category_of
from holdfast.jobs._exits import Attempt, Trouble, derive, judge_completed, judge_failed
from holdfast.jobs._masking import masked
from holdfast.jobs._program import Given, JobProgram
from holdfast.jobs._scope import Request, Wait
from holdfast.ports import Ask
from holdfast.runs import End, Run, RunStatus

FEW_JOBS = 2
"""So many jobs may each have a thread for a stretch of their functions."""
LINGER_SECONDS = 2.0
"""How long a job stays in its worker when its next step is due so soon."""


class JobScheduler(Scheduler):
    """Drives one flow of a job."""

    program: JobProgram

    def __init__(self, run: Run, program: JobProgram, log: RunLog | None, requests: deque[Request]) -> None:
        super().__init__(run, program, log=log)
        self.shared = program.scope.shared
        self.requests = requests
        """What came from outside and is not acted on yet."""
        self.acted: list[Request] = []
        """What was acted on, but is not known to be safe."""
        self._shown = self.shared.asked_before
        self.waits: dict[str, Wait] = {}
        """What executions that wait wait for."""
        self._heard = self.shared.knocks
        """The knocks that there were when it last looked around."""
        self._is_root = run.parent is None
        self._prefix = "".join(f"{name}/" for name in program.scope.path)
        self.alarm = Alarm(run.host.clock)
        """Rings when the first of what waits goes on by itself."""

    # -- what to do next -------------------------------------------------------------------------------------------

    def decide(self) -> tuple[list[Command], Execution | None]:
        """Only a function runs where the scheduler stands: while anything else goes on, requests are heard.

        Nor does that where several jobs are at work: what is done in threads then waits for the interpreter more than it works.
        """
        commands = self._look_around()
        if len(commands) != 1 or not isinstance(command := commands[0], Start) or self._flying:
            return commands, None
        is_function = not self.program.is_async(command.execution.step)
        return commands, command.execution if is_function and self.shared.engine.jobs_at_work <= FEW_JOBS else None

    def _look_around(self) -> list[Command]:
        self._heard = self.shared.knocks  # before it looks: who knocks while it works, or stores, is not missed
        self._take_passed()
        while self.requests:
            request = self.requests.popleft()
            if not self._pass_on(request):
                self._act(request)
                self.acted.append(request)
        self._wake_ready()
        while True:
            commands = decide(self.graph, self.state)
            asides = [command for command in commands if isinstance(command, Judge | Skip)]
            if not asides:
                return self._held_back(commands)
            for aside in asides:
                self._settle(aside)

    def _settle(self, aside: Judge | Skip) -> None:
        if isinstance(aside, Judge):
            self.state = judge(self.state, aside, self._holds(aside))
            return
        with at(self.run.place):
            self.run.tell(StepSkippedEvent, name=aside.step, step=aside.step, reason=aside.reason)
        self.state = evolve(self.graph, self.state, Skipped(aside.step))

    def _holds(self, asked: Judge) -> bool:
        inputs = self.program.inputs(asked.step)
        try:
            return inputs.holds(inputs.bind(asked.uses, self.results))
        except (ExpressionError, JobStepError):
            return True  # the step is to fail with it

    def _held_back(self, commands: list[Command]) -> list[Command]:
        """While a job is paused nothing starts, at whatever depth a rule or someone paused it."""
        if not self.shared.paused or not any(isinstance(c, Start) for c in commands):
            return commands
        rest: list[Command] = [command for command in commands if not isinstance(command, Start)]
        return rest or ([] if self.state.running else [Park()])

    def _act(self, request: Request) -> None:
        with at(self.run.place):
            if request.kind == "pause":
                self.run.tell(JobPausedEvent, job_id=self.shared.job_id, reason=request.reason or "paused")
                self.state = evolve(self.graph, self.state, Paused(request.reason or "paused"))
                self.shared.paused = True
            elif request.kind == "resume":
                self._resume(request.reason)
            elif request.kind == "rerun":
                self._rerun(request)
            elif request.kind == "answer":
                self.shared.answers.setdefault(request.ask, request.values)  # the first counts
                self.shared.knock()  # it may be for a step inside a step

    def _rerun(self, request: Request) -> None:
        step, _, inside = request.step.partition("/")
        wiring = self.graph.shape.wired.get(step)
        if wiring is None or (inside and not wiring.nested):
            return
        about = {"name": step, "step": step, "inside": inside, "requested_by": request.by}
        self.run.tell(StepRerunRequestedEvent, **about)
        self.state = evolve(self.graph, self.state, Rerun(step, inside))
        self.waits = {key: wait for key, wait in self.waits.items() if key in self.state.waiting}
        self._resume("")

    def _take_passed(self) -> None:
        """Hear what is asked of steps below, unless the step around them is at work: then whoever runs inside it does."""
        for asked in [asked for asked in self.shared.passed if asked[0].startswith(self._prefix)]:
            path = asked[0].removeprefix(self._prefix)
            around, _, inside = path.partition("/")
            if not inside or not self._at_work(around):
                self.shared.passed.remove(asked)
                self.requests.append(replace(asked[1], step=path))

    def _pass_on(self, request: Request) -> bool:
        """Whether it is about a step inside one that is at work, and was passed on to that."""
        around, _, inside = request.step.partition("/")
        if request.kind != "rerun" or not inside or not (working := self._at_work(around)):
            return False
        self.shared.passed.append((self._prefix + request.step, request))
        self._resume("")
        for execution in working:
            self._wake(execution.key)
        self.shared.knock()
        return True

    def _at_work(self, step: str) -> list[Execution]:
        again = self.state.data.again if self.state.data is not None else {}
        return [one for one in (*self.state.in_flight.values(), *again.values()) if one.step == step]

    def _resume(self, reason: str) -> None:
        data = self.state.data
        if data is not None and (data.held or data.paused is not None):
            self.run.tell(JobResumedEvent, job_id=self.shared.job_id, reason=reason)
            self.state = evolve(self.graph, self.state, Resumed())
        self.shared.paused, self.shared.resumed = False, True
        for key in [key for key, wait in self.waits.items() if wait.held]:
            self._wake(key)
        self.shared.knock()  # flows inside may have looked before

    def _wake(self, key: str) -> None:
        self.waits.pop(key, None)
        self.state = wake(self.state, key)

    def _wake_ready(self) -> None:
        """Wake what is due, and what was answered or resumed, be it while it was only about to wait."""
        if not self.waits:
            return
        now = self._now_us()
        for key, wait in list(self.waits.items()):
            if wait.is_due(now) or self.shared.frees(wait):
                self._wake(key)

    def _now_us(self) -> int:
        return self.run.host.clock.time_ns() // 1000

    # -- waiting ---------------------------------------------------------------------------------------------------

    @property
    def asks(self) -> tuple[Ask, ...]:
        """What the steps wait for that someone must say."""
        return tuple(ask for wait in self.waits.values() for ask in wait.asks)

    @property
    def due_us(self) -> int | None:
        """When the first of what waits goes on by itself."""
        return first_due(self.waits.values())

    @property
    def held(self) -> str:
        """Why the job is paused; empty if it is not."""
        data = self.state.data
        if data is not None and data.held:
            step, hold = next(iter(data.held.items()))
            return f"step {step}: {hold.reason or hold.rule}"
        if data is not None and data.paused is not None:
            return data.paused
        inside = next((wait.held for wait in self.waits.values() if wait.held), "")
        return inside or ("paused" if self.shared.paused else "")

    def callers(self) -> list[asyncio.Future[Any]]:
        return [self.shared.knocked(self._heard), *self.alarm.rings(self.due_us)]

    async def stay(self, ended: Complete | Fail | Park) -> bool:
        """A job whose next step is due soon, or that was just asked something, is not put down."""
        if not isinstance(ended, Park):
            return False
        if self.requests:
            return True
        due = self.due_us
        if self.held or due is None or due - self._now_us() > LINGER_SECONDS * 1e6 or not self._is_root:
            return False
        await self.commit()
        await asyncio.wait(self.callers(), return_when=asyncio.FIRST_COMPLETED)
        return True

    async def commit(self) -> None:
        answers = self.shared.answers  # until a step has taken it, and that is safe, an answer is not acted on
        acted = [request for request in self.acted if request.kind != "answer" or request.ask not in answers]
        await super().commit()
        for request in acted:
            self.acted.remove(request)
            await self.shared.settle(request)
        known = (*self.shared.asked_before, *self.asks, *self.shared.open_asks.values())
        asks = tuple({ask.id: ask for ask in known}.values())
        if self._is_root and asks != self._shown:
            self._shown = asks
            await self.shared.show(asks)

    # -- what an execution is given, and what came of it -----------------------------------------------------------

    def given(self, execution: Execution) -> Given:
        inputs = self.program.inputs(execution.step)
        attempt = attempt_of(self.graph, self.state, execution)
        try:
            bound = inputs.bind(execution.uses, self.results)
            items = (
                inputs.items(execution.uses, self.results)
                if self.program.spec(execution.step).kind == "for_each"
                else ()
            )
            return Given(bound, tuple(items), attempt)
        except JobStepError as problem:
            return Given({}, (), attempt, problem)

    def place(self, execution: Execution) -> Position:
        here = self.run.place
        cause = next((self.event_ids[used] for used in reversed(execution.uses) if used in self.event_ids), None)
        subject = self.program.subjects[execution.step]
        return Position(self.run.id, here.scope, subject, cause or here.triggered_by, execution.key)

    def weigh(self, outcome: Outcome, execution: Execution) -> Outcome:
        step, fact = self.program.spec(execution.step), outcome.fact
        if isinstance(fact, Waiting):
            assert isinstance(outcome.error, AnswerPendingError)
            wait: Any = outcome.error.requests[0]
            self.waits[execution.key] = wait
            since = execution.since_us or wait.since_us or self._now_us()
            return replace(outcome, fact=replace(fact, until_us=wait.until_us, since_us=since))
        if isinstance(fact, Cancelled):  # an answer to it is not used: if it is begun again, that counts
            self.waits.pop(execution.key, None)
        else:
            self.shared.answers.pop(ask_id(self.run.id, execution.key), None)
        if self.shared.asked_before:
            self.shared.forget_asked(self.program.scope.step_path(step.name))
        if isinstance(fact, Completed):
            try:
                return self._weigh_result(outcome, execution)
            except ExpressionError as error:
                self._tell_unevaluated(step.name, error)
                return self._weigh_error(error, execution)
        if isinstance(fact, Failed) and outcome.error is not None:
            return self._weigh_error(outcome.error, execution)
        return outcome

    def _weigh_result(self, outcome: Outcome, execution: Execution) -> Outcome:
        step = self.program.spec(execution.step)
        outputs = derive(step, outcome.result) if step.derived_outputs else outcome.result
        lacks = self._lacks(step.name, outputs)
        if not step.exits:
            return Outcome(
                replace(outcome.fact, verdict=Verdict("advance", lacks=lacks)) if lacks else outcome.fact, outputs
            )
        verdict = replace(judge_completed(step, outputs, self._as_rules_see(execution)), lacks=lacks)
        if verdict.action == "fail":
            rules = ", ".join(rule.name for rule in step.exits)
            error = JobStepError(f"none of its exit rules matched: {rules}")
            self.run.tell(ExitUnmatchedEvent, step=step.name, outcome="fail")
            return self._weigh_error(error, execution)
        self._tell_exit(verdict, execution)
        return Outcome(replace(outcome.fact, verdict=verdict), outputs)

    def _weigh_error(self, error: BaseException, execution: Execution) -> Outcome:
        step = self.program.spec(execution.step)
        if isinstance(error, JobLimitError):
            self.run.tell(
                JobLimitExceededEvent, job_id=self.shared.job_id, limit="", used=0, allowed=0, reason=str(error)
            )
            return self._failed(error, execution, Verdict("fail", reason="limit_exceeded"))
        try:
            verdict = judge_failed(step, _trouble(error), self._as_rules_see(execution), self._delay_until)
        except ExpressionError as unclear:
            self._tell_unevaluated(step.name, unclear)
            both = str(unclear) if unclear is error else f"{error}; then {unclear}"
            failure = JobStepError(both, category="expression")
            return self._failed(failure, execution, Verdict("fail", reason="expression"))
        if verdict.action == "retry":
            delay = max(0.0, (verdict.not_before_us - self._now_us()) / 1e6)
            told = {"error": self._masked(error), "error_type": type(error).__name__, "delay_seconds": delay}
            self.run.tell(StepRetryScheduledEvent, name=step.name, attempt=execution.tries + 2, **told)
        return self._failed(error, execution, verdict)

    def _failed(self, error: BaseException, execution: Execution, verdict: Verdict) -> Outcome:
        self._tell_exit(verdict, execution)
        text, kind = self._masked(error), type(error).__name__
        outputs = self.results[execution.key] = failed_outputs(text, kind, category_of(error))
        verdict = replace(verdict, lacks=self._lacks(execution.step, outputs))
        return Outcome(Failed(execution.step, execution.number, f"{kind}: {text}", verdict), error=error)

    def _lacks(self, step: str, outputs: Mapping[str, Any]) -> tuple[str, ...]:
        """What others look for in a step's outputs, and would take from another step instead."""
        wanted = self.graph.shape.looked_for.get(step, ())
        return tuple(path for path in wanted if find(outputs, tuple(path.split("."))) is MISSING)

    def _masked(self, error: BaseException) -> str:
        text: str = masked(str(error), self.shared.secrets)
        return text

    def _tell_unevaluated(self, step: str, error: ExpressionError) -> None:
        told = {"step": step, "expression": error.text, "error": self._masked(error)}
        self.run.tell(ExitEvaluationFailedEvent, **told, error_type=type(error).__name__)

    def _as_rules_see(self, execution: Execution) -> Attempt:
        def rounds(rule: str) -> int:
            return rounds_of(self.state, execution.step, rule)

        return Attempt(attempt_of(self.graph, self.state, execution), execution.tries, execution.fallback, rounds)

    def _delay_until(self, delay: float, jitter: float) -> int:
        moved = delay * (1 + random.uniform(-jitter, jitter))
        return self._now_us() + round(moved * 1e6)

    def _tell_exit(self, verdict: Verdict, execution: Execution) -> None:
        if not verdict.rule:
            return
        about = {"step": execution.step, "rule": verdict.rule, "attempt": execution.number}
        if verdict.action == "loop":
            iteration = rounds_of(self.state, execution.step, verdict.rule) + 1
            self.run.tell(ExitLoopedEvent, **about, target=verdict.target, iteration=iteration)
        elif verdict.action == "escalate":
            self.run.tell(ExitEscalatedEvent, **about, reason=verdict.reason)
            self.shared.paused = True
            self.shared.resumed = False
        elif verdict.action == "abandon":
            self.run.tell(ExitAbandonedEvent, **about)
        elif verdict.action == "advance":
            self.run.tell(ExitAdvancedEvent, **about)

    # -- the end ---------------------------------------------------------------------------------------------------

    def conclude(self, ended: Complete | Fail | Park) -> Any:
        if isinstance(ended, Park):
            raise AnswerPendingError(requests=(Wait(self.asks, self.due_us, self.held),))
        if isinstance(ended, Complete):
            return self.outputs()
        failure = self.state.data.failure if self.state.data is not None else None
        text = "; ".join(ended.errors)
        if failure is None:
            raise JobFailedError(text, reason=text.partition(":")[0] if text.startswith("no_terminal") else "failed")
        error = JobFailedError(text, reason=failure.reason, step=failure.step, rule=failure.rule)
        own = [e for key, e in self.errors.items() if key.rpartition("#")[0] == failure.step]
        raise error from (own[-1] if own else None)

    def outputs(self) -> dict[str, Any]:
        """What the flow gives: the outputs of the steps that end it, put together in the file's order."""
        return outputs_of(self.graph, self.state, self.results)

    def request_limit_end(self, message: str) -> None:
        """The job's time is up."""
        error = JobFailedError(message, reason="limit_exceeded")
        self.run.request_end(End(RunStatus.FAILED, "limit_exceeded", error=error))


def _trouble(error: BaseException) -> Trouble:
    return Trouble(str(error), type(error).__name__, category_of(error))


def outputs_of(graph: Graph, state: GraphState, results: Mapping[str, Any]) -> dict[str, Any]:
    """What a flow that has settled gives: the outputs of the steps that end it, put together in the file's order."""
    current = current_results(graph, state)
    found: dict[str, Any] = {}
    for step in graph.shape.terminals:
        if step in current and isinstance(result := results.get(current[step]), dict):
            found.update(result)
    return found
