"""Events: typed facts about runs, the bus that carries them, and the record that keeps them.

Every event class is importable from here; its family's module is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.context import is_replaying
from holdfast.errors import CircularDependencyError
from holdfast.events.families import WHERE

if TYPE_CHECKING:
    from holdfast.events._base import BaseEvent as BaseEvent
    from holdfast.events._base import Envelope as Envelope
    from holdfast.events._base import UnknownEvent as UnknownEvent
    from holdfast.events._bus import EventBus as EventBus
    from holdfast.events._calling import BusStatistics as BusStatistics
    from holdfast.events._codec import event_classes as event_classes
    from holdfast.events._codec import event_from_dict as event_from_dict
    from holdfast.events._codec import event_to_dict as event_to_dict
    from holdfast.events._handlers import Depends as Depends
    from holdfast.events._listener import BaseEventListener as BaseEventListener
    from holdfast.events._record import Edge as Edge
    from holdfast.events._record import EventNode as EventNode
    from holdfast.events._record import EventRecord as EventRecord
    from holdfast.events._signals import on_signal as on_signal
    from holdfast.events._signals import watch_signals as watch_signals
    from holdfast.events._state import RuntimeState as RuntimeState
    from holdfast.events.families.acp import (
        AgentPlanUpdatedEvent as AgentPlanUpdatedEvent,
    )
    from holdfast.events.families.acp import (
        AgentSessionOpenedEvent as AgentSessionOpenedEvent,
    )
    from holdfast.events.families.acp import (
        AgentUpdateReceivedEvent as AgentUpdateReceivedEvent,
    )
    from holdfast.events.families.agent import (
        AgentExecutionCancelledEvent as AgentExecutionCancelledEvent,
    )
    from holdfast.events.families.agent import (
        AgentExecutionCompletedEvent as AgentExecutionCompletedEvent,
    )
    from holdfast.events.families.agent import (
        AgentExecutionErrorEvent as AgentExecutionErrorEvent,
    )
    from holdfast.events.families.agent import (
        AgentExecutionPausedEvent as AgentExecutionPausedEvent,
    )
    from holdfast.events.families.agent import (
        AgentExecutionStartedEvent as AgentExecutionStartedEvent,
    )
    from holdfast.events.families.bus import (
        HandlerFailedEvent as HandlerFailedEvent,
    )
    from holdfast.events.families.bus import (
        HandlerOverflowEvent as HandlerOverflowEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointCompletedEvent as CheckpointCompletedEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointFailedEvent as CheckpointFailedEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointForkedEvent as CheckpointForkedEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointPrunedEvent as CheckpointPrunedEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointRestoredEvent as CheckpointRestoredEvent,
    )
    from holdfast.events.families.checkpoint import (
        CheckpointStartedEvent as CheckpointStartedEvent,
    )
    from holdfast.events.families.crew import (
        CrewKickoffCancelledEvent as CrewKickoffCancelledEvent,
    )
    from holdfast.events.families.crew import (
        CrewKickoffCompletedEvent as CrewKickoffCompletedEvent,
    )
    from holdfast.events.families.crew import (
        CrewKickoffFailedEvent as CrewKickoffFailedEvent,
    )
    from holdfast.events.families.crew import (
        CrewKickoffPausedEvent as CrewKickoffPausedEvent,
    )
    from holdfast.events.families.crew import (
        CrewKickoffStartedEvent as CrewKickoffStartedEvent,
    )
    from holdfast.events.families.exit import (
        ExitAbandonedEvent as ExitAbandonedEvent,
    )
    from holdfast.events.families.exit import (
        ExitAdvancedEvent as ExitAdvancedEvent,
    )
    from holdfast.events.families.exit import (
        ExitEscalatedEvent as ExitEscalatedEvent,
    )
    from holdfast.events.families.exit import (
        ExitEvaluationFailedEvent as ExitEvaluationFailedEvent,
    )
    from holdfast.events.families.exit import (
        ExitLoopedEvent as ExitLoopedEvent,
    )
    from holdfast.events.families.exit import (
        ExitRuleMatchedEvent as ExitRuleMatchedEvent,
    )
    from holdfast.events.families.exit import (
        ExitUnmatchedEvent as ExitUnmatchedEvent,
    )
    from holdfast.events.families.flow import (
        FlowCancelledEvent as FlowCancelledEvent,
    )
    from holdfast.events.families.flow import (
        FlowCreatedEvent as FlowCreatedEvent,
    )
    from holdfast.events.families.flow import (
        FlowFailedEvent as FlowFailedEvent,
    )
    from holdfast.events.families.flow import (
        FlowFinishedEvent as FlowFinishedEvent,
    )
    from holdfast.events.families.flow import (
        FlowInputReceivedEvent as FlowInputReceivedEvent,
    )
    from holdfast.events.families.flow import (
        FlowInputRequestedEvent as FlowInputRequestedEvent,
    )
    from holdfast.events.families.flow import (
        FlowPausedEvent as FlowPausedEvent,
    )
    from holdfast.events.families.flow import (
        FlowPlotEvent as FlowPlotEvent,
    )
    from holdfast.events.families.flow import (
        FlowStartedEvent as FlowStartedEvent,
    )
    from holdfast.events.families.flow import (
        MethodExecutionCancelledEvent as MethodExecutionCancelledEvent,
    )
    from holdfast.events.families.flow import (
        MethodExecutionFailedEvent as MethodExecutionFailedEvent,
    )
    from holdfast.events.families.flow import (
        MethodExecutionFinishedEvent as MethodExecutionFinishedEvent,
    )
    from holdfast.events.families.flow import (
        MethodExecutionPausedEvent as MethodExecutionPausedEvent,
    )
    from holdfast.events.families.flow import (
        MethodExecutionStartedEvent as MethodExecutionStartedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachCancelledEvent as ForEachCancelledEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachCompletedEvent as ForEachCompletedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachFailedEvent as ForEachFailedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachItemCompletedEvent as ForEachItemCompletedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachItemFailedEvent as ForEachItemFailedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachItemStartedEvent as ForEachItemStartedEvent,
    )
    from holdfast.events.families.for_each import (
        ForEachStartedEvent as ForEachStartedEvent,
    )
    from holdfast.events.families.human import (
        HumanFeedbackReceivedEvent as HumanFeedbackReceivedEvent,
    )
    from holdfast.events.families.human import (
        HumanFeedbackRequestedEvent as HumanFeedbackRequestedEvent,
    )
    from holdfast.events.families.human import (
        HumanInputReceivedEvent as HumanInputReceivedEvent,
    )
    from holdfast.events.families.human import (
        HumanInputRequestedEvent as HumanInputRequestedEvent,
    )
    from holdfast.events.families.human import (
        HumanRequestCancelledEvent as HumanRequestCancelledEvent,
    )
    from holdfast.events.families.human import (
        HumanRequestTimedOutEvent as HumanRequestTimedOutEvent,
    )
    from holdfast.events.families.job import (
        JobArchivedEvent as JobArchivedEvent,
    )
    from holdfast.events.families.job import (
        JobAwaitingApprovalEvent as JobAwaitingApprovalEvent,
    )
    from holdfast.events.families.job import (
        JobCancelledEvent as JobCancelledEvent,
    )
    from holdfast.events.families.job import (
        JobCompletedEvent as JobCompletedEvent,
    )
    from holdfast.events.families.job import (
        JobEvent as JobEvent,
    )
    from holdfast.events.families.job import (
        JobFailedEvent as JobFailedEvent,
    )
    from holdfast.events.families.job import (
        JobLimitExceededEvent as JobLimitExceededEvent,
    )
    from holdfast.events.families.job import (
        JobPausedEvent as JobPausedEvent,
    )
    from holdfast.events.families.job import (
        JobQueuedEvent as JobQueuedEvent,
    )
    from holdfast.events.families.job import (
        JobRecoveredEvent as JobRecoveredEvent,
    )
    from holdfast.events.families.job import (
        JobResumedEvent as JobResumedEvent,
    )
    from holdfast.events.families.job import (
        JobRetriedEvent as JobRetriedEvent,
    )
    from holdfast.events.families.job import (
        JobStartedEvent as JobStartedEvent,
    )
    from holdfast.events.families.job import (
        JobWaitingEvent as JobWaitingEvent,
    )
    from holdfast.events.families.llm import (
        LLMCallCancelledEvent as LLMCallCancelledEvent,
    )
    from holdfast.events.families.llm import (
        LLMCallCompletedEvent as LLMCallCompletedEvent,
    )
    from holdfast.events.families.llm import (
        LLMCallFailedEvent as LLMCallFailedEvent,
    )
    from holdfast.events.families.llm import (
        LLMCallPausedEvent as LLMCallPausedEvent,
    )
    from holdfast.events.families.llm import (
        LLMCallStartedEvent as LLMCallStartedEvent,
    )
    from holdfast.events.families.llm import (
        LLMContextOverflowEvent as LLMContextOverflowEvent,
    )
    from holdfast.events.families.llm import (
        LLMStreamChunkEvent as LLMStreamChunkEvent,
    )
    from holdfast.events.families.llm import (
        LLMStreamRestartedEvent as LLMStreamRestartedEvent,
    )
    from holdfast.events.families.llm import (
        LLMThinkingChunkEvent as LLMThinkingChunkEvent,
    )
    from holdfast.events.families.loop import (
        LoopCancelledEvent as LoopCancelledEvent,
    )
    from holdfast.events.families.loop import (
        LoopExhaustedEvent as LoopExhaustedEvent,
    )
    from holdfast.events.families.loop import (
        LoopFinishedEvent as LoopFinishedEvent,
    )
    from holdfast.events.families.loop import (
        LoopIterationEvent as LoopIterationEvent,
    )
    from holdfast.events.families.loop import (
        LoopStartedEvent as LoopStartedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPConnectionCancelledEvent as MCPConnectionCancelledEvent,
    )
    from holdfast.events.families.mcp import (
        MCPConnectionCompletedEvent as MCPConnectionCompletedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPConnectionFailedEvent as MCPConnectionFailedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPConnectionStartedEvent as MCPConnectionStartedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPToolExecutionCancelledEvent as MCPToolExecutionCancelledEvent,
    )
    from holdfast.events.families.mcp import (
        MCPToolExecutionCompletedEvent as MCPToolExecutionCompletedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPToolExecutionFailedEvent as MCPToolExecutionFailedEvent,
    )
    from holdfast.events.families.mcp import (
        MCPToolExecutionStartedEvent as MCPToolExecutionStartedEvent,
    )
    from holdfast.events.families.resource import (
        ResourceAcquiredEvent as ResourceAcquiredEvent,
    )
    from holdfast.events.families.resource import (
        ResourceReleasedEvent as ResourceReleasedEvent,
    )
    from holdfast.events.families.resource import (
        ResourceReleaseFailedEvent as ResourceReleaseFailedEvent,
    )
    from holdfast.events.families.resource import (
        ResourceSweptEvent as ResourceSweptEvent,
    )
    from holdfast.events.families.run import (
        RunCancelledEvent as RunCancelledEvent,
    )
    from holdfast.events.families.run import (
        RunCompletedEvent as RunCompletedEvent,
    )
    from holdfast.events.families.run import (
        RunFailedEvent as RunFailedEvent,
    )
    from holdfast.events.families.run import (
        RunPausedEvent as RunPausedEvent,
    )
    from holdfast.events.families.run import (
        RunResumedEvent as RunResumedEvent,
    )
    from holdfast.events.families.run import (
        RunStartedEvent as RunStartedEvent,
    )
    from holdfast.events.families.run import (
        RunWaitingEvent as RunWaitingEvent,
    )
    from holdfast.events.families.schedule import (
        SchedulePausedEvent as SchedulePausedEvent,
    )
    from holdfast.events.families.schedule import (
        ScheduleResumedEvent as ScheduleResumedEvent,
    )
    from holdfast.events.families.schedule import (
        ScheduleTickCompletedEvent as ScheduleTickCompletedEvent,
    )
    from holdfast.events.families.schedule import (
        ScheduleTickFailedEvent as ScheduleTickFailedEvent,
    )
    from holdfast.events.families.schedule import (
        ScheduleTickSkippedEvent as ScheduleTickSkippedEvent,
    )
    from holdfast.events.families.schedule import (
        ScheduleTickStartedEvent as ScheduleTickStartedEvent,
    )
    from holdfast.events.families.signal import (
        SigContEvent as SigContEvent,
    )
    from holdfast.events.families.signal import (
        SigHupEvent as SigHupEvent,
    )
    from holdfast.events.families.signal import (
        SigIntEvent as SigIntEvent,
    )
    from holdfast.events.families.signal import (
        SignalEvent as SignalEvent,
    )
    from holdfast.events.families.signal import (
        SigTermEvent as SigTermEvent,
    )
    from holdfast.events.families.signal import (
        SigTstpEvent as SigTstpEvent,
    )
    from holdfast.events.families.state import (
        StateConflictEvent as StateConflictEvent,
    )
    from holdfast.events.families.step import (
        StepCancelledEvent as StepCancelledEvent,
    )
    from holdfast.events.families.step import (
        StepCompletedEvent as StepCompletedEvent,
    )
    from holdfast.events.families.step import (
        StepDisownedEvent as StepDisownedEvent,
    )
    from holdfast.events.families.step import (
        StepFailedEvent as StepFailedEvent,
    )
    from holdfast.events.families.step import (
        StepOutputChunkEvent as StepOutputChunkEvent,
    )
    from holdfast.events.families.step import (
        StepRerunRequestedEvent as StepRerunRequestedEvent,
    )
    from holdfast.events.families.step import (
        StepRetryScheduledEvent as StepRetryScheduledEvent,
    )
    from holdfast.events.families.step import (
        StepSkippedEvent as StepSkippedEvent,
    )
    from holdfast.events.families.step import (
        StepStartedEvent as StepStartedEvent,
    )
    from holdfast.events.families.step import (
        StepWaitingEvent as StepWaitingEvent,
    )
    from holdfast.events.families.task import (
        LLMGuardrailCompletedEvent as LLMGuardrailCompletedEvent,
    )
    from holdfast.events.families.task import (
        LLMGuardrailFailedEvent as LLMGuardrailFailedEvent,
    )
    from holdfast.events.families.task import (
        LLMGuardrailStartedEvent as LLMGuardrailStartedEvent,
    )
    from holdfast.events.families.task import (
        TaskCancelledEvent as TaskCancelledEvent,
    )
    from holdfast.events.families.task import (
        TaskCompletedEvent as TaskCompletedEvent,
    )
    from holdfast.events.families.task import (
        TaskFailedEvent as TaskFailedEvent,
    )
    from holdfast.events.families.task import (
        TaskPausedEvent as TaskPausedEvent,
    )
    from holdfast.events.families.task import (
        TaskSkippedEvent as TaskSkippedEvent,
    )
    from holdfast.events.families.task import (
        TaskStartedEvent as TaskStartedEvent,
    )
    from holdfast.events.families.tool import (
        ToolSelectionErrorEvent as ToolSelectionErrorEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsageCancelledEvent as ToolUsageCancelledEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsageErrorEvent as ToolUsageErrorEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsageFinishedEvent as ToolUsageFinishedEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsageLimitReachedEvent as ToolUsageLimitReachedEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsagePausedEvent as ToolUsagePausedEvent,
    )
    from holdfast.events.families.tool import (
        ToolUsageStartedEvent as ToolUsageStartedEvent,
    )
    from holdfast.events.families.tool import (
        ToolValidateInputErrorEvent as ToolValidateInputErrorEvent,
    )

_OWN = {
    "BaseEvent": "_base",
    "Envelope": "_base",
    "UnknownEvent": "_base",
    "BusStatistics": "_calling",
    "EventBus": "_bus",
    "event_classes": "_codec",
    "event_from_dict": "_codec",
    "event_to_dict": "_codec",
    "Depends": "_handlers",
    "BaseEventListener": "_listener",
    "Edge": "_record",
    "EventNode": "_record",
    "EventRecord": "_record",
    "on_signal": "_signals",
    "watch_signals": "_signals",
    "RuntimeState": "_state",
}

__all__ = ["CircularDependencyError", "is_replaying", *_OWN, *WHERE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _OWN:
        module = importlib.import_module(f"{__name__}.{_OWN[name]}")
    elif name in WHERE:
        module = importlib.import_module(f"{__name__}.families.{WHERE[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
