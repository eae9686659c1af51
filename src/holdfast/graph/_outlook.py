"""What is current, ready and unsettled where data drives the steps. Pure: it follows from the wiring and the state."""

from __future__ import annotations

from functools import cached_property

from holdfast.graph._model import Graph
from holdfast.graph._state import Command, DataState, Execution, GraphState, Judge, Judgement, Skip, Start
from holdfast.graph._wiring import Need


class Outlook:
    """What is current, ready and unsettled in a state."""

    def __init__(self, graph: Graph, state: GraphState) -> None:
        self.graph, self.state = graph, state
        self.data = state.data or DataState()
        self.shape = graph.shape
        self.current: dict[str, str] = {}
        """for each step with a current result, the execution it is of"""
        self._keys: set[str] = set()
        available, used = self.data.available, self.data.used
        for step in self.shape.order:
            if step in available and not self.is_stale(step, used.get(key := available[step], ())):
                self.current[step] = key
                self._keys.add(key)

    def is_stale(self, step: str, uses: tuple[str, ...]) -> bool:
        """Whether something that was given to a step is out of date, or there now though it was not."""
        if self._keys.issuperset(uses):  # which is how it mostly is
            return False
        for backward, used in zip(self.shape.backward[step], uses, strict=False):
            if used:
                if used not in self._keys and not backward.get(used.rpartition("#")[0]):
                    return True
            elif any(origin in self.current for origin, loops in backward.items() if not loops):
                return True
        return False

    @cached_property
    def active(self) -> set[str]:
        """Steps that have begun and not come to an end."""
        flying = (*self.state.running.values(), *self.state.waiting.values(), *self.data.again.values())
        return {execution.step for execution in flying} | set(self.data.held)

    @cached_property
    def due(self) -> list[str]:
        """Steps that are to run, now or once they are ready."""
        data, current = self.data, self.current
        return [
            step
            for step in self.shape.order
            if (step not in current or step in data.forced)
            and step not in self.active
            and step not in data.skipped
            and (step in data.forced or (seen := data.seen.get(step)) is None or self.is_stale(step, seen))
        ]

    def bind(self, step: str) -> tuple[str, ...] | None:
        """The executions that satisfy each need of a step; None if one is not satisfied yet."""
        uses: list[str] = []
        lacking = self.data.lacking
        for need in self.shape.wired[step].needs:
            used = passed_over = ""
            for origin in need.origins:
                key = self._brought_back(origin.step, origin.loop) if origin.loop else self.current.get(origin.step, "")
                if key and lacking and origin.path in lacking.get(key, ()):
                    passed_over = passed_over or key
                elif key:
                    used = key
                    break
            if not used and passed_over and all(s in self.current or self._is_over(s) for s in need.ahead):
                used = passed_over  # no other can come any more
            if not used and not self._can_do_without(need):
                return None
            uses.append(used)
        return tuple(uses)

    def _can_do_without(self, need: Need) -> bool:
        return (need.optional or need.resolved) and all(self._is_over(step) for step in need.ahead)

    def _is_over(self, step: str) -> bool:
        """Whether a step without a result will give none any more."""
        return step in self.data.skipped or (step in self.data.excused and step not in self.due)

    def _brought_back(self, step: str, head: str) -> str:
        """The latest result that a loop brings back, of its present frame."""
        key = self.data.latest.get(step, "")
        if not key or head not in self.data.turned:
            return ""
        return key if int(key.rpartition("#")[2]) > self.data.floors.get(head, {}).get(step, 0) else ""

    def next(self) -> tuple[list[Command], list[str]]:
        """What to start or to judge, and the steps that are due but not ready."""
        commands: list[Command] = [Start(execution) for execution in self.data.again.values()]
        unready: list[str] = []
        for step in self.due:
            uses = self.bind(step)
            if uses is None:
                unready.append(step)
                continue
            judged = self.data.judged.get(step)
            if not self.shape.wired[step].guarded or (judged is not None and judged == Judgement(uses, True)):
                number, inside = self.state.counts.get(step, 0) + 1, self.data.inside.get(step, "")
                commands.append(Start(Execution(step, number, f"{step}#{number}", uses=uses, inside=inside)))
            elif judged is None or judged.uses != uses:
                commands.append(Judge(step, uses))
            else:
                unready.append(step)
        return commands, unready

    def skips(self, unready: list[str]) -> list[Command]:
        """The steps to leave out first: no other unready one leads to them."""
        left = set(unready)
        return [Skip(step, self._why(step)) for step in unready if not left.intersection(self._ahead(step))]

    def _ahead(self, step: str) -> set[str]:
        return {origin for need in self.shape.wired[step].needs for origin in need.ahead}

    def _why(self, step: str) -> str:
        missing = [s for s in sorted(self._ahead(step)) if s not in self.current]
        if self.bind(step) is None and missing:
            return f"{', '.join(missing)} gave no result"
        return "its condition did not hold"

    @property
    def is_settled_well(self) -> bool:
        """Whether a run that has come to rest did what it was to do."""
        if any(step in self.current for step in self.shape.terminals):
            return True
        data = self.data
        return all(
            step in self.current or step in data.excused or (step in data.skipped and step not in data.seen)
            for step in self.shape.wired
        )


def current_results(graph: Graph, state: GraphState) -> dict[str, str]:
    """For each step with a current result, the execution it is of."""
    return Outlook(graph, state).current
