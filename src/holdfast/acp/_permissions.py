"""`Permissions`: how an agent's requests for permission are answered."""

from __future__ import annotations

import inspect
from contextvars import copy_context
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct

from holdfast.context import is_async_callable
from holdfast.errors import AnswerPendingError, UsageError
from holdfast.events.families.human import (
    HumanInputReceivedEvent,
    HumanInputRequestedEvent,
    HumanRequestCancelledEvent,
)
from holdfast.ports import HumanProvider, HumanRequest
from holdfast.runs import Run
from holdfast.threads import done_here

Verdict = Literal["allow", "deny", "ask"]

_WANTED = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always")}
"""Kinds of option, best first: `always` would outlive the question, also for other runs that share the agent."""


class Permissions(Struct, frozen=True):
    """What an agent may do without asking, what it may not, and what a person decides.

    A rule is a pattern, as for file names, of a kind of tool (`read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`, …),
    or of a kind and a title: `execute:git *`. What both lists name is denied. Kind and title are the agent's own words: this
    guides an agent that means well; a sandbox holds one that does not.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    otherwise: Verdict = "deny"
    """what neither list names"""
    human: HumanProvider | None = None
    """who is asked when the verdict is `ask`"""

    def verdict(self, kind: str, title: str) -> Verdict:
        """What the rules say of a use of a tool."""
        for verdict, rules in (("deny", self.deny), ("allow", self.allow)):
            if any(fnmatchcase(kind, rule) or fnmatchcase(f"{kind}:{title}", rule) for rule in rules):
                return verdict  # type: ignore[return-value]
        return self.otherwise

    def check(self) -> None:
        """Raises UsageError if somebody is to be asked, but nobody is named."""
        if self.otherwise == "ask" and self.human is None:
            raise UsageError("Permissions(otherwise='ask') needs somebody to ask: give it `human`")


class Question(Struct, frozen=True):
    """A request for permission, as the agent made it."""

    id: str
    """the same when the step is run again"""
    session_id: str
    tool_call: dict[str, Any]
    options: list[dict[str, Any]]

    @property
    def kind(self) -> str:
        return str(self.tool_call.get("kind") or "other")

    @property
    def title(self) -> str:
        return str(self.tool_call.get("title") or self.tool_call.get("toolCallId", ""))

    def option(self, verdict: str) -> str | None:
        """The id of the offered option that says so, if there is one."""
        offered = {option.get("kind"): option.get("optionId") for option in reversed(self.options)}
        return next((offered[kind] for kind in _WANTED[verdict] if offered.get(kind) is not None), None)


async def decide(question: Question, permissions: Permissions, run: Run) -> str | None:
    """The id of the chosen option; None to give none. Raises what asking a person raises, AnswerPendingError among it."""
    verdict = permissions.verdict(question.kind, question.title)
    if verdict != "ask":
        return question.option(verdict)
    if permissions.human is None:
        raise UsageError("Permissions has nobody to ask: give it `human`")
    return await _ask(question, permissions.human, run)


async def _ask(question: Question, human: HumanProvider, run: Run) -> str | None:
    names = tuple(str(option.get("name", "")) for option in question.options)
    message = f"The agent asks for permission: {question.title} ({question.kind})"
    about = {"tool_call": question.tool_call, "options": question.options}
    request = HumanRequest(question.id, "input", message, run.id, options=names, metadata=about)
    run.tell(HumanInputRequestedEvent, request_id=request.id, kind="permission", message=message, fields=about)
    try:
        async with run.waiting("permission"):
            answer = await _answer(human, request, run)
    except AnswerPendingError:
        raise AnswerPendingError(requests=(request,)) from None
    except BaseException as error:
        run.tell(HumanRequestCancelledEvent, request_id=request.id, reason=type(error).__name__)
        raise
    run.tell(HumanInputReceivedEvent, request_id=request.id, values=answer)
    return _chosen(question, answer)


async def _answer(human: HumanProvider, request: HumanRequest, run: Run) -> str:
    given: Any
    if is_async_callable(human.request):
        given = human.request(request)
    else:
        thread = run.host.threads.submit(copy_context(), human.request, request)
        await done_here(thread)
        given = thread.result()
    return str(await given if inspect.isawaitable(given) else given)


def _chosen(question: Question, answer: str) -> str | None:
    """An answer names an option, by name, id or kind, or says yes or no. Anything else allows nothing."""
    said = answer.strip().casefold()
    for option in question.options:
        if said and said in {str(option.get(key, "")).casefold() for key in ("name", "optionId", "kind")}:
            return str(option["optionId"])
    return question.option("allow" if said in {"y", "yes", "allow", "approve", "approved", "ok"} else "deny")
