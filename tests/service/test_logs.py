"""Live output in files: followed as it grows, bounded, and never in a job's way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from holdfast.ports import LogLine
from holdfast.service import LogFolder


def line(text: str) -> LogLine:
    return LogLine(1, "build/0/compile", "stdout", text, attempt=2)


async def test_lines_come_back_as_they_were_written_whatever_is_in_them(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    written = [line("a\nb"), line("\x1b[31mred\x00"), line("ü 🙂"), line("")]
    writer = logs.writer("j1")
    for one in written:
        writer.write(one)
    writer.close()
    writer.close()
    assert [*logs.follow("j1").new()] == written


async def test_a_follower_gets_each_line_once_and_waits_for_the_end_of_one(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    follower, writer = logs.follow("j1"), logs.writer("j1")
    assert [*follower.new()] == []
    writer.write(line("one"))
    writer.close()
    last = msgspec.json.encode(line("two")) + b"\n"
    with logs.path("j1").open("ab") as file:
        file.write(last[:20])
    assert [one.text for one in follower.new()] == ["one"]
    assert [*follower.new()] == []
    with logs.path("j1").open("ab") as file:
        file.write(last[20:] + b"no JSON\n" + last)
    assert [one.text for one in follower.new()] == ["two", "two"]


async def test_a_step_that_is_a_plain_function_is_told_of_from_its_own_thread(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    writer = logs.writer("j1")
    writer.write(line("in the loop"))
    await asyncio.to_thread(writer.write, line("in a thread"))
    assert [one.text for one in logs.follow("j1").new()] == ["in the loop", "in a thread"]
    writer.close()
    assert [one.text for one in logs.follow("j1").new()] == ["in the loop", "in a thread"]


async def test_a_flood_is_cut_off_with_one_note_also_when_the_job_is_taken_up_again(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path, max_bytes=2000)
    for _ in range(2):
        writer = logs.writer("j1")
        for _ in range(1000):
            writer.write(line("x" * 50))
        writer.close()
    texts = [one.text for one in logs.follow("j1").new()]
    assert 10 < len(texts) < 30
    assert texts.count("further output is not kept: the job has written too much") == 1
    assert texts[-1].startswith("further output")


async def test_output_that_cannot_be_written_is_dropped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").write_text("a file is in the way")
    writer = LogFolder(tmp_path / "logs").writer("j1")
    writer.write(line("one"))
    writer.close()
    writer.write(line("two"))
    writer.close()
    assert caplog.text.count("further output is dropped") == 1


async def test_a_folder_that_cannot_even_be_looked_at_is_not_in_a_jobs_way(tmp_path: Path) -> None:
    """It ended the worker, and with it every job that it had."""
    loop = tmp_path / "logs"
    loop.symlink_to(loop)
    writer = LogFolder(loop).writer("j1")
    writer.write(line("one"))
    writer.close()


async def test_what_is_written_can_be_read_before_the_job_is_over(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path)
    writer = logs.writer("j1")
    writer.write(line("one"))
    async with asyncio.timeout(5):
        follower = logs.follow("j1")
        while not [*follower.new()]:
            await asyncio.sleep(0.001)
            follower = logs.follow("j1")
    writer.close()


def test_deleting_what_is_not_there_is_fine(tmp_path: Path) -> None:
    LogFolder(tmp_path).delete("j1")
