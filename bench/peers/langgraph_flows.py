"""Measure LangGraph's graphs; run in LangGraph's own environment as `langgraph_flows.py ROW …`, prints one JSON object.

Its checkpointer for SQLite sets WAL and leaves `synchronous` at SQLite's default, FULL. `durability="sync"` is what ours promises:
a step's state is stored before the next begins. `"async"`, its default, stores it while the next step runs.
"""

import json
import operator
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class Count(TypedDict):
    n: int
    limit: int


class Growing(TypedDict):
    n: int
    limit: int
    news: Annotated[list[str], operator.add]


def extend(news: list[str], writes: list[list[str]]) -> list[str]:
    return news + [text for write in writes for text in write]


class GrowingByDeltas(TypedDict):
    n: int
    limit: int
    news: Annotated[list[str], DeltaChannel(extend)]


def count(state: Any) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def grow(state: Any) -> dict[str, Any]:
    return {"n": state["n"] + 1, "news": ["x" * 1024]}


def go_on(state: Any) -> str:
    return "work" if state["n"] < state["limit"] else END


def make_loop(kind: Any, work: Callable[[Any], dict[str, Any]], saver: Any) -> Any:
    builder = StateGraph(kind)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", go_on, ["work", END])
    return builder.compile(checkpointer=saver)


def make_chain() -> Any:
    builder = StateGraph(Count)
    for name in ("one", "two", "three"):
        builder.add_node(name, count)
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", "three")
    builder.add_edge("three", END)
    return builder.compile()


def milliseconds_a_step(graph: Any, thread: str, steps: int, durability: str, **more: Any) -> float:
    config = {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}
    started = time.perf_counter()
    final = graph.invoke({"n": 0, "limit": steps, **more}, config, durability=durability)
    taken = time.perf_counter() - started
    assert final["n"] == steps
    return taken / steps * 1000


def measure_plain() -> dict[str, float]:
    graph = make_chain()
    given = {"n": 0, "limit": 3}

    def milliseconds(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            graph.invoke(given)
        return (time.perf_counter() - started) / times * 1000

    milliseconds(50)
    return {"ms": min(milliseconds(100) for _ in range(7))}


def measure_saver(saver: Any, steps: int) -> dict[str, float]:
    """The best of five runs each, after one that is thrown away."""
    graph = make_loop(Count, count, saver)
    figures = {}
    for durability in ("sync", "async"):
        taken = [milliseconds_a_step(graph, f"{durability}{n}", steps, durability) for n in range(6)]
        figures[durability] = min(taken[1:])
    return figures


def measure_durable(steps: str) -> dict[str, float]:
    with SqliteSaver.from_conn_string("durable.db") as saver:
        return measure_saver(saver, int(steps))


def measure_postgres(address: str, steps: str) -> dict[str, float]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(address) as saver:
        saver.setup()
        return measure_saver(saver, int(steps))


def measure_growing(kind: str, steps: str) -> dict[str, float]:
    state = {"plain": Growing, "delta": GrowingByDeltas}[kind]
    with SqliteSaver.from_conn_string("growing.db") as saver:
        taken = milliseconds_a_step(make_loop(state, grow, saver), "one", int(steps), "sync", news=[])
    weight = sum(file.stat().st_size for file in Path().glob("growing.db*"))
    return {"ms": taken, "mb": weight / 1e6}


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    row, *arguments = sys.argv[1:]
    print(json.dumps(globals()[f"measure_{row}"](*arguments)))
