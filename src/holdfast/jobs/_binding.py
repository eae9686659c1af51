"""What a step is given: values out of other steps' results and the job's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import JobStepError
from holdfast.flowfiles import ForEach, JobSource, Source, StepSource, StepSpec, WhenExpression, compile_expression
from holdfast.jobs._compile import ITEMS, needs_of


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Stands for a value that is not there, which null is."""


def find(value: Any, path: tuple[str, ...]) -> Any:
    """What a path leads to; MISSING when it leads nowhere."""
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10 and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


class Inputs:
    """How the inputs of one step are found."""

    def __init__(self, step: StepSpec, variables: Mapping[str, Any]) -> None:
        self._step = step
        self._variables = variables
        self._places = {name: place for place, (name, _) in enumerate(needs_of(step)) if name}
        when = step.when
        self._when = (
            compile_expression(when.expression.text, when.expression.at) if isinstance(when, WhenExpression) else None
        )

    def bind(self, uses: tuple[str, ...], results: Mapping[str, Any]) -> dict[str, Any]:
        """The values by input; what is optional and absent is null. Raises JobStepError if one is not there that must be."""
        bound: dict[str, Any] = {}
        for one in self._step.inputs:
            value = self._first(one.name, one.sources, uses, results)
            if value is MISSING and not one.optional and not _comes_back(one.sources):
                raise JobStepError(
                    f"input {one.name} has no value: {_told(one.sources)} {_found(one.sources, uses, results)}",
                    category="configuration",
                )
            bound[one.name] = None if value is MISSING else value
        return bound

    def items(self, uses: tuple[str, ...], results: Mapping[str, Any]) -> list[Any]:
        """What a `for_each` step runs for. Raises JobStepError if that is no list."""
        executor = self._step.executor
        assert isinstance(executor, ForEach)
        value = self._first(ITEMS, (executor.source,), uses, results)
        if not isinstance(value, list):
            kind = "nothing" if value is MISSING else f"a {type(value).__name__}"
            raise JobStepError(
                f"{_told((executor.source,))} is {kind}, and a step runs for each item of a list",
                category="configuration",
            )
        return value

    def _first(self, name: str, sources: tuple[Source, ...], uses: tuple[str, ...], results: Mapping[str, Any]) -> Any:
        place = self._places.get(name)
        used = uses[place] if place is not None and place < len(uses) else ""
        producer = used.rpartition("#")[0]
        for source in sources:
            value = MISSING
            if isinstance(source, JobSource):
                value = find(self._variables.get(source.name, MISSING), source.path)
            elif source.step == producer:
                value = find(results.get(used, MISSING), source.path)
            if value is not MISSING:
                return value
        return MISSING

    def holds(self, bound: Mapping[str, Any]) -> bool:
        """Whether the step's `when` holds for these inputs. Raises ExpressionError if it cannot be evaluated."""
        when = self._step.when
        if when is None:
            return True
        if self._when is not None:
            return bool(self._when.evaluate(bound))
        assert not isinstance(when, WhenExpression)
        value = bound.get(when.input)
        if when.test == "eq":
            return bool(value == when.value)
        if when.test == "in":
            return value in when.value
        is_null = value is None
        return is_null == bool(when.value) if when.test == "is_null" else is_null != bool(when.value)


def _comes_back(sources: tuple[Source, ...]) -> bool:
    return all(isinstance(source, StepSource) and source.loop for source in sources)


def _told(sources: tuple[Source, ...]) -> str:
    return " or ".join(
        f"$job.{'.'.join((s.name, *s.path))}" if isinstance(s, JobSource) else ".".join((s.step, *s.path))
        for s in sources
    )


def _found(sources: tuple[Source, ...], uses: tuple[str, ...], results: Mapping[str, Any]) -> str:
    for source in sources:
        for used in uses:
            if isinstance(source, StepSource) and used.rpartition("#")[0] == source.step:
                result = results.get(used)
                names = ", ".join(result) if isinstance(result, Mapping) and result else "nothing"
                return f"is not there; {source.step} gave {names}"
    return "is not there"
