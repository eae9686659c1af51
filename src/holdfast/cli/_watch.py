"""Following a job as it runs: a live tree with streaming text on a terminal, lines in a pipe."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli._job_views import step_tree
from holdfast.cli._terminal import console, may_go_unseen, on_terminal, printable, width
from holdfast.service import Noticing, is_settled

if TYPE_CHECKING:
    from holdfast.cli._project import Project
    from holdfast.ports import Job, LogLine, StepInfo

LOOK_SECONDS = 0.1
"""How often the screen is renewed at most; output is looked for as often."""
TAIL_LINES = 8

Show = Callable[["Job", "Sequence[StepInfo]", "Sequence[LogLine]"], None]


async def follow(project: Project, job: Job, show: Show) -> Job:
    """Call `show` with all that is new until the job has ended, waits or is paused."""
    noticing, lines = Noticing(project.jobs, project.clock), project.logs.follow(job.id)
    while True:
        began = project.clock.monotonic()
        job = await project.service.get(job.id)
        show(job, await project.runner.steps(job) if on_terminal() else (), [*lines.new()])
        if is_settled(job):
            return job
        took = project.clock.monotonic() - began
        await project.clock.sleep(max(LOOK_SECONDS, 5 * took))  # a long journal is not read all the time
        await noticing.changed(project.clock.monotonic() + LOOK_SECONDS)


async def watch(project: Project, job: Job) -> Job:
    """Show a job until it has ended, waits or is paused."""
    if not on_terminal():
        return await follow(project, job, _echo)
    from rich.live import Live

    view = LiveView(project.clock.time_ns)
    with Live(console=console(), refresh_per_second=10, transient=False) as live:
        return await follow(project, job, lambda job, steps, lines: live.update(view.render(job, steps, lines)))


def _echo(job: Job, steps: Sequence[StepInfo], lines: Sequence[LogLine]) -> None:
    with may_go_unseen():  # the job does not end with it
        echo_log(lines)


class LiveView:
    """The tree of steps, and below it the last lines that they wrote."""

    def __init__(self, time_ns: Callable[[], int]) -> None:
        self._time_ns = time_ns
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._open = ""

    def render(self, job: Job, steps: Sequence[StepInfo], lines: Sequence[LogLine]) -> Any:
        from rich.console import Group
        from rich.text import Text

        for line in lines:
            if line.channel in ("text", "stdout", "stderr", "tool"):
                self._add(line.text)
        shown = [*self._tail, *([self._open] if self._open else [])][-TAIL_LINES:]
        tail = Text("\n".join(printable(one)[: width() - 4] for one in shown), style="dim")
        return Group(step_tree(job, steps, self._time_ns() // 1000), tail)

    def _add(self, text: str) -> None:
        """Chunks of text come in any size; lines are what people read."""
        *whole, self._open = (self._open + text).split("\n")
        self._tail.extend(line for line in whole if line.strip())


def echo_log(lines: Sequence[LogLine]) -> None:
    """Lines of a log in a pipe: the step, the channel, the text. Chunks of text that came together are put together."""
    for (step, channel, _), group in itertools.groupby(lines, _piece):
        for text in "".join(line.text for line in group).rstrip("\n").split("\n"):
            typer.echo(f"{step or '-'}\t{channel}\t{printable(text)}")


def _piece(line: LogLine) -> tuple[str, str, int]:
    """What lines have in common that are pieces of one text; others have nothing in common."""
    return line.step, line.channel, 0 if line.channel in ("text", "thinking") else id(line)
