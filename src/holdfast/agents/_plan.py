"""A crew's tasks as a graph: which must be done before which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.agents._task import Task
from holdfast.errors import UsageError
from holdfast.graph import AllOf, Condition, Graph, Node, Source


def task_keys(tasks: Sequence[Task]) -> list[str]:
    """A name for each task that is the same in every process: its own, or its place."""
    wanted = [task.name or f"task {place}" for place, task in enumerate(tasks, 1)]
    seen: Counter[str] = Counter()
    keys = []
    for name in wanted:
        seen[name] += 1
        keys.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return keys


def crew_graph(name: str, tasks: Sequence[Task]) -> Graph:
    """What the tasks amount to. Raises UsageError for a context that can never be there."""
    keys = task_keys(tasks)
    nodes = []
    for place in range(len(tasks)):
        needed = sorted({*_before(tasks, place), *_context(tasks, place)})
        trigger = _all_of([keys[one] for one in needed])
        nodes.append(Node(keys[place], trigger, is_start=trigger is None))
    return Graph(name, tuple(nodes), keeps_results=True)


def _before(tasks: Sequence[Task], place: int) -> set[int]:
    """The tasks that the order makes it wait for: the last that is not async and, for one that is not, the async ones since."""
    found: set[int] = set()
    for earlier in range(place - 1, -1, -1):
        if not tasks[earlier].async_execution:
            return found | {earlier}
        if not tasks[place].async_execution:
            found.add(earlier)
    return found


def _context(tasks: Sequence[Task], place: int) -> set[int]:
    found: set[int] = set()
    for wanted in tasks[place].context or ():
        at = next((one for one, task in enumerate(tasks) if task is wanted), None)
        if at is None or at >= place:
            raise UsageError(
                f"task {tasks[place].title!r} has {wanted.title!r} as context, which is "
                f"{'not a task of this crew' if at is None else 'not before it'}"
            )
        found.add(at)
    return found


def _all_of(keys: list[str]) -> Condition | None:
    if not keys:
        return None
    return Source(keys[0]) if len(keys) == 1 else AllOf(tuple(map(Source, keys)))
