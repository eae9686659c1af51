from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from tests.events.samples import python

import holdfast
from holdfast import errors, events
from holdfast.events import BaseEvent, families


def defined_classes() -> dict[str, type[BaseEvent]]:
    """Every event class written in our modules, found by looking rather than by any table."""
    modules = [importlib.import_module(i.name) for i in pkgutil.walk_packages(events.__path__, "holdfast.events.")]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, BaseEvent) and value.__module__ == module.__name__
    }


def test_every_event_class_is_importable_from_holdfast_events() -> None:
    classes = defined_classes()
    assert len(classes) > 100
    for name, cls in classes.items():
        assert getattr(events, name) is cls


@pytest.mark.parametrize("module", [holdfast, events])
def test_all_names_what_is_there_and_nothing_else(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(module, name) is not None
    assert dir(module) == sorted(names)
    public = {name for name in vars(module) if not name.startswith("_")}
    extra = {name for name in public - set(names) if not inspect.ismodule(getattr(module, name))}
    # what the facade itself needs
    assert extra <= {"annotations", "TYPE_CHECKING", "Any", "WHERE", "PlatformError", "DefaultRuntime"}


def test_the_facade_names_every_event_class_and_its_own_parts() -> None:
    assert set(events.__all__) >= set(defined_classes())
    assert set(families.WHERE) == set(defined_classes()) - {"BaseEvent", "UnknownEvent"}


def test_what_type_checkers_see_is_what_is_there() -> None:
    source = inspect.getsource(events)
    for name in events.__all__:
        assert f"{name} as {name}" in source or f"import {name}\n" in source, name


@pytest.mark.parametrize("module", [holdfast, events])
def test_an_unknown_name_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        module.Nonsense  # type: ignore[attr-defined] # noqa: B018


def test_s1_13_importing_holdfast_loads_no_family_and_no_bus() -> None:
    told = python("""
import sys, holdfast, holdfast.events
loaded = [m for m in sys.modules if m.startswith("holdfast.")]
assert not [m for m in loaded if m.startswith("holdfast.events.families.") or m.endswith("._bus")], loaded
holdfast.events.TaskCompletedEvent
loaded = [m for m in sys.modules if m.startswith("holdfast.events.families.")]
assert loaded == ["holdfast.events.families.task"], loaded
assert "asyncio" not in sys.modules
print("fine")
""")
    assert told.stdout == "fine\n", told.stderr


def test_the_words_users_know_are_there() -> None:
    for name in (
        "FlowStartedEvent", "MethodExecutionFinishedEvent", "CrewKickoffStartedEvent", "TaskCompletedEvent",
        "AgentExecutionStartedEvent", "LLMCallStartedEvent", "LLMStreamChunkEvent", "ToolUsageFinishedEvent",
        "CheckpointCompletedEvent", "HandlerFailedEvent", "HandlerOverflowEvent", "Depends", "BaseEventListener",
        "CircularDependencyError", "is_replaying", "on_signal",
    ):  # fmt: skip
        assert name in events.__all__
    for method in (
        "on", "emit", "aemit", "off", "flush", "scoped_handlers", "replay", "register_handler", "validate_dependencies",
        "shutdown", "enable_recording", "reset_runtime_state", "set_runtime_state", "runtime_state",
    ):  # fmt: skip
        assert hasattr(holdfast.EventBus, method)
    assert events.TaskCompletedEvent.type == "task_completed"
    assert events.LLMStreamChunkEvent.type == "llm_stream_chunk"
    assert events.MethodExecutionFinishedEvent.type == "method_execution_finished"


def test_every_error_is_in_the_tree_that_its_docstring_draws() -> None:
    classes = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    drawn = (errors.__doc__ or "").split()
    for name, cls in classes.items():
        assert issubclass(cls, errors.HoldfastError)
        assert name in drawn
