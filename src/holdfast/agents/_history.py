"""The conversation of an agent, as it follows from what was recorded. Pure: the same results give the same messages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from holdfast.models import AssistantMessage, Message, Reply, ToolCall, ToolMessage, UserMessage
from holdfast.ports import Usage

Policy = Literal["summarise", "truncate", "fail"]
"""What is done when the messages no longer fit into the model's context."""


class Turn(Reply, frozen=True):
    """One answer of the model, and what follows from it."""

    follow_up: str = ""
    """what the model is told about it before it is asked again"""
    overflowed: bool = False
    """there is no answer: the messages did not fit"""

    def __getitem__(self, index: int) -> ToolCall:
        """The tool call that one execution of `act` makes."""
        return self.message.tool_calls[index]

    @property
    def is_answer(self) -> bool:
        return not (self.message.tool_calls or self.follow_up or self.overflowed)


class Condensed(Struct, frozen=True):
    """What stands in the place of the first turns."""

    turns: int
    """how many"""
    text: str
    usage: Usage = Usage()


class History:
    """What was said so far: the first messages, and the results of the loop's steps by execution key."""

    def __init__(self, first: Sequence[Message], results: Mapping[str, Any]) -> None:
        self._first = list(first)
        self._results = dict(results)
        self._messages: list[Message] | None = None

    def add(self, key: str, result: Any) -> None:
        """Take the result of an execution into account."""
        self._results[key] = result
        self._messages = None

    @property
    def turns(self) -> list[Turn]:
        """Every turn, oldest first."""
        return list(_numbered(self._results, "think"))

    def messages(self) -> list[Message]:
        """What the model is to be told next."""
        if self._messages is None:
            self._messages = self._all_said()
        return list(self._messages)

    def _all_said(self) -> list[Message]:
        condensed = self._condensed()
        said = list(self._first)
        if condensed is not None:
            said.append(UserMessage(condensed.text))
        skipped = condensed.turns if condensed is not None else 0
        for number, messages in enumerate(self._exchanges()):
            if number >= skipped:
                said += messages
        return said

    def unsaid(self) -> list[Message]:
        """The messages that the model has not been told before."""
        said = self.messages()
        new = itertools.takewhile(lambda one: not isinstance(one, AssistantMessage), reversed(said))
        return [*new][::-1]

    def to_condense(self) -> tuple[int, list[Message]]:
        """How many turns are to be put shorter, and what was said in those of them that were not before."""
        condensed = self._condensed()
        done = condensed.turns if condensed is not None else 0
        exchanges = self._exchanges()
        upto = max(len(exchanges) - 1, done) if len(exchanges) - done > 1 else len(exchanges)
        before: list[Message] = [UserMessage(condensed.text)] if condensed is not None else []
        said = [message for messages in exchanges[done:upto] for message in messages]
        return upto, before + said if said else []

    def _condensed(self) -> Condensed | None:
        return next(reversed(list(_numbered(self._results, "condense"))), None)

    def _exchanges(self) -> list[list[Message]]:
        """What was said in each turn that has an answer: by the model, by its tools, and to it."""
        tools = _numbered(self._results, "act")
        found: list[list[Message]] = []
        for turn in self.turns:
            if turn.overflowed:
                continue
            said: list[Message] = [turn.message]
            said += [next(tools) for _ in turn.message.tool_calls]
            if turn.follow_up:
                said.append(UserMessage(turn.follow_up))
            found.append(said)
        return found


def _numbered(results: Mapping[str, Any], step: str) -> Iterator[Any]:
    """The results of a step, in the order of its executions."""
    number = 1
    while (key := f"{step}#{number}") in results:
        yield results[key]
        number += 1


def transcript(messages: Sequence[Message], longest: int = 2000) -> str:
    """Messages as text that a model can put shorter; no message longer than that."""
    lines = []
    for message in messages:
        if isinstance(message, ToolMessage):
            lines.append(f"[tool {message.name}] {message.text[:longest]}")
        elif isinstance(message, AssistantMessage):
            calls = "".join(f" [calls {call.name}({call.arguments[:longest]})]" for call in message.tool_calls)
            lines.append(f"[assistant] {message.text[:longest]}{calls}")
        else:
            lines.append(f"[user] {message.text[:longest]}")
    return "\n".join(lines)
