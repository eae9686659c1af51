"""Log lines that carry the ids of the run they belong to."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from holdfast import Run, Runtime, on_behalf_of
from holdfast.logs import configure, get_logger

log = get_logger("tests")


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    logger = logging.getLogger("holdfast")
    before, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = before
    logger.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_every_line_inside_a_run_carries_its_ids(runtime: Runtime) -> None:
    configure(stream=(stream := io.StringIO()))

    async def body(run: Run) -> None:
        def in_a_thread() -> None:
            log.warning("blocking")

        with on_behalf_of(task_id="t1", agent_id="a1"):
            log.info("awaiting")
        await run.spawn(in_a_thread)

    run = runtime.start(body)
    await run
    log.info("outside")
    awaiting, blocking, outside = lines(stream)
    assert awaiting["run_id"] == blocking["run_id"] == run.id
    assert awaiting["step_id"]
    assert awaiting["step_id"] != blocking["step_id"]
    assert (awaiting["task_id"], awaiting["agent_id"]) == ("t1", "a1")
    assert "task_id" not in blocking
    assert "run_id" not in outside


def test_a_json_line_holds_message_extras_and_traceback() -> None:
    configure(stream=(stream := io.StringIO()))
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("it broke: %s", "là", extra={"path": object, "n": 3})
    (line,) = lines(stream)
    assert line["message"] == "it broke: là"
    assert (line["level"], line["logger"], line["n"]) == ("error", "holdfast.tests", 3)
    assert "object" in str(line["path"])
    assert "ValueError: no" in str(line["exception"])
    assert str(line["time"]).endswith("+00:00")
    assert "là" in stream.getvalue()


async def test_a_text_line_has_the_run_id_in_it(runtime: Runtime) -> None:
    configure(style="text", stream=(stream := io.StringIO()))

    async def body(run: Run) -> str:
        log.info("hello")
        return run.id

    run_id = await runtime.arun(body)
    assert f"INFO    {run_id} holdfast.tests: hello\n" in stream.getvalue()


def test_configuring_twice_replaces_the_first_and_leaves_other_handlers_alone() -> None:
    other = logging.NullHandler()
    logging.getLogger("holdfast").addHandler(other)
    configure(stream=(first := io.StringIO()))
    configure("WARNING", stream=(second := io.StringIO()))
    log.info("too low")
    log.warning("heard")
    assert first.getvalue() == ""
    assert [line["message"] for line in lines(second)] == ["heard"]
    assert other in logging.getLogger("holdfast").handlers
