"""Every error Holdfast raises, in one tree.

    HoldfastError
    ├── UsageError                      you called us wrong; the message says how to call
    │   ├── HandlerSignatureError       a handler must take (source, event) or (source, event, state)
    │   ├── DependencyError             handlers that depend on one another cannot be ordered
    │   │   ├── CircularDependencyError     A waits for B and B waits for A
    │   │   └── UnknownDependencyError      a handler waits for one that is not registered
    │   ├── EventDefinitionError        an event class cannot carry what it declares
    │   ├── EventNotEmittedError        identity was read before emit() gave it
    │   ├── EventReusedError            one event object was emitted twice
    │   ├── FlushInHandlerError         flush() inside a handler would wait for itself
    │   ├── SyncInAsyncError            a blocking call where only the awaiting twin can work
    │   ├── WrongLoopError              a run was awaited from a loop it does not live on
    │   ├── FlowDefinitionError         a flow class can never run as it is written
    │   ├── GraphChangedError           the program differs from the one its run was recorded with
    │   ├── FlowInputError              inputs or state do not fit the flow
    │   ├── ToolDefinitionError         a tool can never be called as it is written
    │   ├── UnknownJobError             there is no such job, or several fit what was typed
    │   ├── UnknownScheduleError        there is no such schedule
    │   └── PlatformError               this operating system is not supported
    ├── ConfigurationError              the surroundings are not set up: no project, no store
    │   └── FlowFileError                   a flow file cannot be used; `findings` says where and why
    ├── ExpressionError                 an expression of a flow file cannot be read or evaluated; says where
    ├── ScheduleCheckError              the check of a poll did not end well, or said something else than it should
    ├── FlushTimeoutError               handlers were still at work when the time was up
    ├── TransitionError                 a status cannot follow the present one
    │   ├── IllegalTransitionError          the table has no such edge
    │   └── AlreadyFinishedError            the run went through its one door before
    ├── ClosedError                     you closed it
    │   ├── BusClosedError                  emit or on after shutdown()
    │   ├── RuntimeClosedError              a run was started after close()
    │   └── ManagerClosedError              a resource was asked for after release_all()
    ├── RunError                        a run did not end as hoped
    │   ├── RunFailedError                  it broke; __cause__ says how
    │   ├── RunCancelledError               it was cancelled, with a reason
    │   ├── StepFailedError                 a step of its graph broke, or ran too often
    │   │   └── JobStepError                    a step of a job failed; `category` says how
    │   │       └── JobLimitError                   the job has used what it may use: it ends, whatever its rules say
    │   ├── JobFailedError                  a job ended without its result; says why, at which step, by which rule
    │   ├── StateConflictError              steps that overlapped changed the same thing; names path, steps and fix
    │   ├── AgentError                      an agent gave no answer that counts
    │   ├── GuardrailError                  a task's output was refused as often as it may be
    │   ├── BudgetExceededError             the run has used what it may use
    │   ├── AnswerPendingError              a person's answer will come later; the run is put down until then
    │   ├── RunEndedError                   it has ended; late writes and emits are refused
    │   └── RunUnrecordedError              it ended, but its end could not be stored
    ├── ModelError                      a model did not answer as hoped; says which model
    │   ├── ModelAuthError                  the provider does not accept the key
    │   │   └── ModelKeyMissingError            no key was given; `variable` names where one is looked for
    │   ├── ModelRequestError               the provider refuses the request; sending it again will not help
    │   │   └── ContextLengthError              the messages do not fit into the model's context window
    │   ├── ModelRateLimitedError           too many requests; `retry_after` says how long to wait, if known
    │   ├── ModelUnavailableError           the provider cannot be reached, is overloaded or broke
    │   ├── ModelReplyError                 the provider answered with something that is no answer
    │   └── ModelStreamError                the answer broke off half-way; no part of it counts
    ├── McpError                        an MCP server did not do as asked; says which server
    │   ├── McpConnectionError              it cannot be reached, or the connection was lost
    │   ├── McpTimeoutError                 it did not answer in time
    │   └── McpCallError                    it answered with an error
    ├── AcpError                        an agent program did not do as asked; says which, and its last words
    │   ├── AcpGoneError                    its process ended, or it hung up, before it had answered
    │   ├── AcpRequestError                 it answered with an error
    │   ├── AcpTimeoutError                 it did not answer, or did not stop, in time
    │   ├── AcpProtocolError                what it sent cannot be followed, or was too much
    │   └── AcpUnsupportedError             it does not offer what was asked of it
    ├── DeliveryError                   a hook or webhook could not be told; it is tried again
    │   └── DeliveryRefusedError            it will never be told: trying again is no use
    ├── SignatureError                  a webhook that came in is not signed with the key, or is too old
    ├── ResourceError                   something a run holds could not be had, or not be given back
    │   ├── SpawnError                      a command could not be started; nothing of it is left
    │   │   └── SandboxError                    it could not be confined as asked, so it was not run
    │   ├── HandshakeError                  it started, but did not answer as it should; nothing of it is left
    │   └── StuckError                      it could not be ended; it stays in the ledger for the sweep
    └── StorageError                    something cannot be stored or read back
        ├── NotStorableError                a value has no stored form; names its path
        ├── SecretMissingError              what was stored needs a secret that was not supplied again
        ├── StoreUnavailableError           the storage itself cannot be reached, read or written
        ├── CorruptStoreError               what is stored is damaged; says what can be saved and how
        ├── RunBusyError                    another live process holds the run
        ├── FencedError                     a later session holds the run; this one may not write any more
        └── PositionError                   rows do not follow the head of their branch

Base classes say what kind of mistake it is, so `except UsageError` separates "fix the call" from "it broke".
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """Root of every error this package raises on purpose."""


class UsageError(HoldfastError):
    """The call was wrong; the message says how to make it right."""


class HandlerSignatureError(UsageError, TypeError):
    """A handler cannot be called with `(source, event)` or `(source, event, state)`."""


class DependencyError(UsageError):
    """Handlers that depend on one another cannot be put in an order."""


class CircularDependencyError(DependencyError):
    """Handlers wait for one another in a circle."""

    def __init__(self, circle: list[str]) -> None:
        self.circle = circle
        super().__init__(
            f"handlers wait for one another in a circle: {' -> '.join(circle)}; remove one of these depends_on"
        )


class UnknownDependencyError(DependencyError):
    """A handler depends on one that is registered for none of its event types."""


class EventDefinitionError(UsageError, TypeError):
    """An event class declares something an event cannot carry."""


class EventNotEmittedError(UsageError, AttributeError):
    """An event's identity was read before `emit` stamped it."""


class EventReusedError(UsageError):
    """One event object was emitted twice."""


class FlushInHandlerError(UsageError):
    """`flush()` was called inside a handler, where it would wait for itself."""


class FlushTimeoutError(HoldfastError, TimeoutError):
    """Handlers were still at work when the time was up; nothing was lost."""


class SyncInAsyncError(UsageError, RuntimeError):
    """A blocking call was made where it would stop the loop it waits for."""


class WrongLoopError(UsageError, RuntimeError):
    """A run was awaited from an event loop other than its own."""


class FlowDefinitionError(UsageError):
    """A flow class can never run as it is written."""


class GraphChangedError(UsageError):
    """The program differs from the one its run was recorded with; names the steps."""


class FlowInputError(UsageError, ValueError):
    """Inputs or a state do not fit the flow they were given to."""


class ToolDefinitionError(UsageError, TypeError):
    """A tool can never be called as it is written."""


class UnknownJobError(UsageError, LookupError):
    """There is no such job, or several fit what was typed."""


class UnknownScheduleError(UsageError, LookupError):
    """There is no such schedule."""


class PlatformError(UsageError, ImportError):
    """This operating system is not supported."""


class ConfigurationError(HoldfastError):
    """Something around the program is not set up: no project, no store; the message says how to set it up."""


class FlowFileError(ConfigurationError):
    """A flow file cannot be used; `findings` has everything that is wrong with it, each with its place and a fix."""

    def __init__(self, message: str, *, findings: tuple[object, ...] = ()) -> None:
        self.findings = findings
        super().__init__(message)


class ExpressionError(HoldfastError):
    """An expression of a flow file cannot be read or evaluated; `text` is the expression, `at` its file, line and column."""

    def __init__(self, message: str, *, text: str = "", at: str = "") -> None:
        self.text = text
        self.at = at
        super().__init__(f"{at}: {message}" if at else message)


class ScheduleCheckError(HoldfastError):
    """The check of a poll did not end well, or said something else than whether to fire and how far it has come."""


class TransitionError(HoldfastError):
    """A status cannot follow the present one."""


class IllegalTransitionError(TransitionError):
    """The status table has no such edge."""


class AlreadyFinishedError(TransitionError):
    """The run went through `finish()` before."""


class ClosedError(HoldfastError):
    """You closed it; it did not break."""


class BusClosedError(ClosedError):
    """The bus was shut down."""


class RuntimeClosedError(ClosedError):
    """The runtime was closed."""


class ManagerClosedError(ClosedError):
    """The manager has released everything for good."""


class RunError(HoldfastError):
    """A run did not end as hoped, or has ended already."""


class RunFailedError(RunError):
    """The run broke; `__cause__` is the error that broke it."""


class RunCancelledError(RunError):
    """The run was cancelled; `reason` says why."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        self.reason = reason
        super().__init__(message)


class StepFailedError(RunError):
    """A step of the run's graph broke, or ran too often."""


class JobStepError(StepFailedError):
    """A step of a job failed; `category` is what exit rules and `retry` choose by."""

    def __init__(self, message: str, *, category: str = "failed") -> None:
        self.category = category
        super().__init__(message)


class JobLimitError(JobStepError):
    """A limit of a whole job is reached: the job ends, whatever the rules of its steps say."""


class JobFailedError(RunError):
    """A job ended without its result: `reason`, and where there is one the `step` and the `rule`."""

    def __init__(self, message: str, *, reason: str = "", step: str = "", rule: str = "") -> None:
        self.reason, self.step, self.rule = reason, step, rule
        super().__init__(message)


class StateConflictError(RunError):
    """Steps that overlapped changed the same thing, and nothing says which change counts."""

    def __init__(self, message: str, *, path: str = "", steps: tuple[str, ...] = (), changes: object = None) -> None:
        self.path = path
        self.steps = steps
        self.changes = changes
        """What the last of the steps changed, and what that was based on."""
        super().__init__(message)


class AnswerPendingError(RunError):
    """A person's answer will come later. Raised by whoever asks; the run is put down until `resume()` brings it."""

    def __init__(self, message: str = "the answer will come later", *, requests: tuple[object, ...] = ()) -> None:
        self.requests = requests
        """The questions without an answer, as `HumanRequest`s."""
        super().__init__(message)


class AgentError(RunError):
    """An agent gave no answer that counts: too many turns, empty answers, or none in the form that was asked for."""


class GuardrailError(RunError):
    """A task's output was refused by a guardrail as often as it may be."""


class BudgetExceededError(RunError):
    """The run has used what it may use: money, tokens, requests or time."""


class RunEndedError(RunError):
    """The run has ended; what comes late is refused."""


class RunUnrecordedError(RunError):
    """The run ended but its end could not be stored; recovery owns it now."""


class ModelError(HoldfastError):
    """A model did not answer as hoped."""

    transient: ClassVar[bool] = False
    """Whether the same request may succeed later; only then it is sent again."""

    def __init__(
        self, message: str, *, model: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        self.model = model
        self.status = status
        """The HTTP status, where there was one."""
        self.retry_after = retry_after
        """Seconds the provider asked to wait, if it did."""
        super().__init__(message)


class ModelAuthError(ModelError):
    """The provider does not accept the key, or the key may not use this model."""


class ModelKeyMissingError(ModelAuthError):
    """No key was given and none is in the environment; `variable` names where it is looked for."""

    def __init__(self, message: str, *, variable: str = "", model: str = "") -> None:
        self.variable = variable
        super().__init__(message, model=model)


class ModelRequestError(ModelError):
    """The provider refuses the request itself; sending it again will not help."""


class ContextLengthError(ModelRequestError):
    """The messages do not fit into the model's context window; shorten or summarise them."""


class ModelRateLimitedError(ModelError):
    """Too many requests; `retry_after` says how long to wait, if the provider did."""

    transient = True


class ModelUnavailableError(ModelError):
    """The provider cannot be reached, is overloaded, or broke before it had answered."""

    transient = True


class ModelReplyError(ModelError):
    """The provider answered with something that is no answer."""


class ModelStreamError(ModelError):
    """The answer broke off half-way; no part of it counts, and `__cause__` says what broke."""


class McpError(HoldfastError):
    """An MCP server did not do as asked."""

    def __init__(self, message: str, *, server: str = "") -> None:
        self.server = server
        super().__init__(message)


class McpConnectionError(McpError):
    """An MCP server cannot be reached, or the connection to it was lost; connect again once it is up."""


class McpTimeoutError(McpError, TimeoutError):
    """An MCP server did not answer in time."""


class McpCallError(McpError):
    """An MCP server answered a call with an error."""


class AcpError(HoldfastError):
    """An agent program did not do as asked."""

    def __init__(self, message: str, *, agent: str = "", stderr: str = "") -> None:
        self.agent = agent
        self.stderr = stderr
        """The last it wrote to standard error."""
        super().__init__(message)


class AcpGoneError(AcpError):
    """The agent's process ended, or it hung up, before it had answered; take a new lease and reopen the session."""


class AcpRequestError(AcpError):
    """The agent answered with an error; `code` and `data` are its own."""

    def __init__(self, message: str, *, code: int = 0, data: object = None, agent: str = "", stderr: str = "") -> None:
        self.code = code
        self.data = data
        super().__init__(message, agent=agent, stderr=stderr)


class AcpTimeoutError(AcpError, TimeoutError):
    """The agent did not answer, or did not stop when it was told to, in time."""


class AcpProtocolError(AcpError):
    """What the agent sent cannot be followed, or was more than anybody could read."""


class AcpUnsupportedError(AcpError):
    """The agent does not offer what was asked of it."""


class DeliveryError(HoldfastError):
    """A hook or webhook could not be told what happened; it is tried again later."""


class DeliveryRefusedError(DeliveryError):
    """A hook or webhook will never be told, so that trying again is no use: the receiver is gone, or may not be reached."""


class SignatureError(HoldfastError):
    """A webhook that came in is not signed with the key, was altered, or is too old; do not act on it."""


class ResourceError(HoldfastError):
    """Something a run holds could not be had, or not be given back."""


class SpawnError(ResourceError):
    """A command could not be started; nothing of it is left."""


class SandboxError(SpawnError):
    """A command could not be confined as asked, so it was not run; the message says why and what to do."""


class HandshakeError(ResourceError):
    """A process started but did not answer as it should; nothing of it is left."""


class StuckError(ResourceError):
    """A resource could not be ended; it stays in the ledger for the sweep."""


class StorageError(HoldfastError):
    """Something cannot be stored or read back."""


class NotStorableError(StorageError, TypeError):
    """A value has no stored form; `path` says where it sits, and `step` which step it comes from, if one does."""

    def __init__(self, path: str, type_name: str, hint: str = "") -> None:
        self.path = path
        self.type_name = type_name
        self.hint = hint or "store plain data made from it instead"
        self.step = ""
        super().__init__(f"{path}: cannot store a {type_name}; {self.hint}")

    def trace_to(self, step: str, deed: str) -> None:
        """Say which step the value comes from, and what that did with it: `returned`, `left in the state`."""
        self.step = step
        self.args = (f"{self.path}: cannot store a {self.type_name}, which step {step} {deed}; {self.hint}",)


class SecretMissingError(StorageError):
    """What was stored needs a secret that was not supplied again; `secret` names it."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        super().__init__(f"the secret {secret} is never stored and was not supplied; pass it in `secrets`")


class StoreUnavailableError(StorageError):
    """The storage cannot be reached, read or written: disk full, file gone, connection lost."""


class CorruptStoreError(StorageError):
    """What is stored is damaged; the message says what can be saved and how."""


class RunBusyError(StorageError):
    """Another live process holds the run; wait for it, or for its hold to run out."""


class FencedError(StorageError):
    """A later session took over the run; this one's writes are refused."""


class PositionError(StorageError):
    """Rows do not follow the head of their branch without a gap."""
