"""What goes in comes out, and what is no checkpoint stays out."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.checkpoints import export_checkpoint, import_checkpoint
from holdfast.errors import ClosedError, StorageError
from holdfast.ports import CheckpointInfo
from holdfast.stores import MemoryStore
from holdfast.testing._checkpoint_base import CheckpointSuite, Story, short_story, told
from holdfast.testing._journal_base import NOW

HOSTILE = ("../../escaped", "/escaped", "a/../../b", ".", "..", "", "a\nb", "ü\U0001f600", "x" * 3_000, "a b;rm -rf *")


class KeepingConformance(CheckpointSuite):
    """Write, read, list, close."""

    async def test_s1_6_a_document_comes_back_by_its_place_and_by_its_id(self) -> None:
        async with self.opened() as provider:
            mark, document = await short_story()
            where = await asyncio.to_thread(provider.write, document)
            assert await provider.aread(where) == document
            assert await asyncio.to_thread(provider.read, where) == document
            assert provider.read(mark.id) == document

    async def test_s1_6_the_async_side_does_the_same(self) -> None:
        async with self.opened() as provider:
            mark, document = await short_story()
            where = await provider.awrite(document)
            assert provider.read(where) == document
            assert [info.id for info in await provider.alist()] == [mark.id]
            assert await provider.aprune(keep=0) == 1
            assert provider.list() == []

    async def test_s1_2_a_document_restores_where_its_journal_never_was(self) -> None:
        async with self.opened() as provider:
            story = Story()
            mark = await story.go()
            where = await provider.awrite(await story.document(mark))
            elsewhere = MemoryStore()
            found = await import_checkpoint(elsewhere, await provider.aread(where), now_us=NOW)
            assert found == mark
            assert [row async for row in elsewhere.read(story.root)] == [
                row async for row in story.store.read(story.root)
            ]

    async def test_the_same_document_twice_changes_nothing(self) -> None:
        async with self.opened_twice() as (provider, twin):
            _, document = await short_story()
            assert provider.write(document) == provider.write(document) == await twin.awrite(document)
            assert len(provider.list()) == len(twin.list()) == 1
            assert twin.read(twin.list()[0].location) == document

    async def test_a_list_says_what_a_checkpoint_is(self) -> None:
        async with self.opened() as provider:
            story = Story()
            first = await story.go(trigger="task_completed")
            second = await story.go(trigger="flow_paused")
            for mark in (first, second):
                provider.write(await story.document(mark))
            found, parent = provider.list()
            assert found == CheckpointInfo(
                id=second.id,
                root_run_id=story.root,
                branch="main",
                parent_id=first.id,
                trigger="flow_paused",
                at_us=second.at_us,
                size=found.size,
                kind="flow",
                name="Greeting",
                status="running",
                location=found.location,
            )
            assert (parent.id, parent.parent_id, parent.trigger) == (first.id, None, "task_completed")
            assert told(provider.read(parent.location)) == told(await story.document(first))

    async def test_lists_are_newest_first_by_the_checkpoints_own_time(self) -> None:
        async with self.opened() as provider:
            times = [NOW + 5, NOW + 1, NOW + 9, NOW + 1]
            written = [await short_story(at_us=at_us) for at_us in times]
            for _, document in written:
                provider.write(document)
            expected = [
                mark.id for mark, _ in sorted(written, key=lambda each: (each[0].at_us, each[0].id), reverse=True)
            ]
            assert [info.id for info in provider.list()] == expected
            assert [info.id for info in await provider.alist(limit=2)] == expected[:2]
            assert provider.list(limit=0) == []

    async def test_a_list_can_be_of_one_run(self) -> None:
        async with self.opened() as provider:
            one, other = Story(), Story()
            marks = [await one.go(), await one.go()]
            for story, mark in ((one, marks[0]), (other, await other.go()), (one, marks[1])):
                provider.write(await story.document(mark))
            assert [info.id for info in provider.list(run_id=one.root)] == [marks[1].id, marks[0].id]
            assert await provider.alist(run_id="unknown") == []

    async def test_checkpoints_of_a_run_may_come_in_any_order(self) -> None:
        for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
            async with self.opened() as provider:
                story = Story()
                marks = [await story.go(), await story.go()]
                await story.fork("b", marks[0])
                marks += [await story.go(branch="b"), await story.go(branch="b")]
                for n in order:
                    await provider.awrite(await story.document(marks[n]))
                assert {info.id: info.branch for info in provider.list()} == {mark.id: mark.branch for mark in marks}
                for mark in marks:
                    assert told(provider.read(mark.id)) == told(await story.document(mark))

    async def test_s1_16_a_branch_keeps_the_state_it_began_with(self) -> None:
        async with self.opened() as provider:
            story = Story()
            base = await story.go(snapshot=b'{"state":"as it was"}')
            await story.fork("b", base, b'{"state":"edited"}')
            await story.fork("c", base)
            marks = [base, await story.go(branch="b"), await story.go(branch="c")]
            await story.fork("d", marks[2])
            marks.append(await story.go(branch="d"))
            for mark in marks:
                provider.write(await story.document(mark))
            for mark in marks:
                assert told(provider.read(mark.id)) == told(await story.document(mark))

    async def test_a_checkpoint_that_stands_on_a_snapshot_alone_is_kept(self) -> None:
        async with self.opened() as provider:
            story = Story()
            await story.go(snapshot=b'{"state":1}')
            at_snapshot = await story.go(snapshot=b"\x00 no JSON")
            mark = await story.go()
            await story.store.prune(story.root, keep_marks=[at_snapshot.id, mark.id])
            for each in (at_snapshot, mark):
                provider.write(await story.document(each))
                assert told(provider.read(each.id)) == told(await story.document(each))

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_no_name_leads_anywhere_else(self, name: str) -> None:
        async with self.opened() as provider:
            story = Story(name or "run")
            await story.fork(name or "branch", await story.go())
            mark = await story.go(branch=name or "branch", id=name or "mark", trigger=name)
            where = provider.write(await story.document(mark))
            assert told(provider.read(where)) == told(provider.read(mark.id)) == told(await story.document(mark))
            [info] = provider.list(run_id=story.root)
            assert (info.id, info.branch, info.trigger) == (mark.id, mark.branch, name)
            assert provider.prune(keep=0) == 1

    async def test_what_is_no_document_is_refused_and_leaves_nothing(self) -> None:
        async with self.opened() as provider:
            _, document = await short_story()
            bad = [
                b"",
                b"{}",
                b"[]",
                b"\xff\xfe",
                b'{"holdfast_checkpoint":1}',
                document[:-5],
                document[: len(document) // 2],
            ]
            bad += [document.replace(b"set", b"sat", 1), document.replace(b'"seq":2', b'"seq":7', 1)]
            bad += [document.replace(b'"holdfast_checkpoint": 1', b'"holdfast_checkpoint": 2')]
            for each in bad:
                with pytest.raises(StorageError):
                    provider.write(each)
                with pytest.raises(StorageError):
                    await provider.awrite(each)
            assert provider.list() == []

    async def test_a_checkpoint_that_is_not_there_is_a_storage_error(self) -> None:
        async with self.opened() as provider:
            provider.write((await short_story())[1])
            for where in ("unknown", "", "../x.json", "/etc/passwd", "nowhere/x.json"):
                with pytest.raises(StorageError):
                    provider.read(where)
                with pytest.raises(StorageError):
                    await provider.aread(where)

    async def test_others_see_what_was_written(self) -> None:
        async with self.opened_twice() as (provider, twin):
            mark, document = await short_story()
            where = provider.write(document)
            assert [info.id for info in twin.list()] == [mark.id]
            assert twin.read(where) == document
            assert twin.prune(keep=0) == 1
            assert provider.list() == []

    async def test_a_journal_holds_the_checkpoints_of_its_provider(self) -> None:
        async with self.opened() as provider:
            mark, document = await short_story()
            provider.write(document)
            if provider.journal is not None:
                assert await provider.journal.mark(mark.id) == mark
                assert await export_checkpoint(provider.journal, mark.id) == document
                run = await provider.journal.run(mark.root_run_id)
                assert run is not None
                assert (run.status, run.held_until_us) == ("running", 0)

    async def test_a_closed_provider_says_so_and_may_be_closed_again(self) -> None:
        provider = self.make_provider()
        _, document = await short_story()
        where = provider.write(document)
        provider.close()
        provider.close()
        await provider.aclose()
        with pytest.raises(ClosedError):
            provider.write(document)
        with pytest.raises(ClosedError):
            provider.read(where)
        with pytest.raises(ClosedError):
            provider.list()
        with pytest.raises(ClosedError):
            provider.prune(keep=1)
        with pytest.raises(ClosedError):
            await provider.awrite(document)
        with pytest.raises(ClosedError):
            await provider.aread(where)
        with pytest.raises(ClosedError):
            await provider.alist()
        with pytest.raises(ClosedError):
            await provider.aprune(keep=1)
