"""Many at once, and one that is killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.ports import CheckpointProvider
from holdfast.testing._checkpoint_base import CheckpointSuite, Story, short_story, told

_PROGRAM = """
from holdfast.testing._checkpoint_base import write_for_ever
{source}
write_for_ever(provider)
"""


def kill_after(program: str, acknowledged: int) -> set[str]:
    """Kill a writing process once it has acknowledged so many documents; return the ids of all that it did."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout
    assert process.returncode == -signal.SIGKILL
    return {line.decode().strip() for line in lines if line.endswith(b"\n")}


class CrowdsConformance(CheckpointSuite):
    """Nothing is lost or mixed up, whoever else is at work and whoever dies."""

    async def test_eight_threads_write_read_and_list(self) -> None:
        async with self.opened() as provider:
            stories = [await short_story() for _ in range(32)]
            together = threading.Barrier(8)

            def work(n: int) -> None:
                together.wait(timeout=30)
                for mark, document in stories[n::8]:
                    assert provider.read(provider.write(document)) == document
                    assert mark.id in {info.id for info in provider.list()}

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(8)))
            assert {info.id for info in provider.list()} == {mark.id for mark, _ in stories}

    async def test_threads_write_checkpoints_of_one_run(self) -> None:
        async with self.opened() as provider:
            story = Story()
            marks = [await story.go() for _ in range(4)]
            await story.fork("b", marks[1])
            marks += [await story.go(branch="b") for _ in range(4)]
            documents = [await story.document(mark) for mark in marks]
            together = threading.Barrier(8)

            def work(document: bytes) -> str:
                together.wait(timeout=30)
                return provider.write(document)

            with ThreadPoolExecutor(8) as pool:
                places = list(pool.map(work, documents))
            for where, document in zip(places, documents, strict=True):
                assert told(provider.read(where)) == told(document)

    async def test_two_objects_write_the_same_document_at_once(self) -> None:
        async with self.opened_twice() as (provider, twin):
            for _ in range(5):
                mark, document = await short_story()
                await asyncio.gather(*(which.awrite(document) for which in (provider, twin) * 2))
                assert told(twin.read(mark.id)) == told(document)
            assert len(provider.list()) == 5

    async def test_tasks_and_threads_share_a_provider(self) -> None:
        async with self.opened() as provider:
            stories = [await short_story() for _ in range(12)]
            await asyncio.gather(
                *(asyncio.to_thread(provider.write, document) for _, document in stories[:6]),
                *(provider.awrite(document) for _, document in stories[6:]),
            )
            assert {info.id for info in await provider.alist()} == {mark.id for mark, _ in stories}

    async def test_pruning_beside_writers_loses_nothing_that_is_to_stay(self) -> None:
        async with self.opened_twice() as (provider, twin):
            stories = [Story() for _ in range(4)]
            marks = {story.root: [await story.go() for _ in range(5)] for story in stories}

            async def write(story: Story) -> None:
                for mark in marks[story.root]:
                    await provider.awrite(await story.document(mark))

            async def prune(story: Story, which: CheckpointProvider) -> None:
                for _ in range(5):
                    await which.aprune(run_id=story.root, keep=5)
                    await which.alist()

            await asyncio.gather(*map(write, stories), *(prune(story, provider) for story in stories))
            await asyncio.gather(*(prune(story, twin) for story in stories))
            assert {info.id for info in provider.list()} == {mark.id for each in marks.values() for mark in each}

    @pytest.mark.parametrize("acknowledged", [1, 4, 9])
    async def test_s1_6_a_writer_killed_in_the_middle_leaves_whole_checkpoints_only(self, acknowledged: int) -> None:
        async with self.opened() as provider:
            mark, document = await short_story()
            provider.write(document)
            program = _PROGRAM.format(source=self.twin_source(provider))
            written = await asyncio.to_thread(kill_after, program, acknowledged)
            assert len(written) >= acknowledged
            async with self.opened_beside(provider) as twin:
                found = {info.id for info in twin.list()}
                assert found >= written | {mark.id}
                assert len(found) <= len(written) + 2  # the one that was under way may be there, if it is whole
                for checkpoint in found:
                    assert told(twin.read(checkpoint))[0].id == checkpoint
                assert twin.prune(keep=0) == len(found)

    async def test_no_thread_is_left_after_closing(self) -> None:
        before = set(threading.enumerate())
        async with self.opened() as provider:
            provider.write((await short_story())[1])
            await provider.awrite((await short_story())[1])
        left = {thread for thread in threading.enumerate() if thread.name.startswith("holdfast-")} - before
        for thread in left:
            thread.join(5)  # told to go, it may be on its last line
        assert {thread.name for thread in left if thread.is_alive()} == set()
