"""Asking whoever sits at the terminal."""

from __future__ import annotations

import sys

from holdfast.errors import UsageError
from holdfast.ports import HumanRequest


class ConsoleProvider:
    """Asks on standard error and reads a line from standard input, so that standard output stays the program's own.

    Raises UsageError, which fails the run, if standard input has ended.
    """

    def request(self, request: HumanRequest) -> str:
        method = request.method_name.partition(":")[0]  # not the step at which its result is looked at
        lines = [f"\n{request.flow_name}.{method}:"]
        if request.kind == "feedback":
            lines.append(f"{request.output}")
        lines.append(request.message)
        if request.options:
            lines.append(f"({', '.join(request.options)})")
        print(*lines, sep="\n", end=" ", file=sys.stderr, flush=True)  # noqa: T201 - it is there to be read
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError(
                f"{method} asks a question, but standard input has ended: give the flow somebody to ask, "
                f"Flow(human=…); holdfast.human.LaterProvider() lets the run wait"
            )
        return answer.rstrip("\n")
