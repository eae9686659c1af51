"""Old checkpoints go by count and by age, and nothing that somebody stands on goes with them."""

from __future__ import annotations

import pytest

from holdfast.checkpoints import import_checkpoint
from holdfast.errors import UsageError
from holdfast.ports import CheckpointProvider, Mark
from holdfast.stores import MemoryStore
from holdfast.testing._checkpoint_base import CheckpointSuite, Story, told
from holdfast.testing._journal_base import NOW, positions


async def keep_story(provider: CheckpointProvider, marks: int = 5) -> tuple[Story, list[Mark]]:
    """A run with some marks, all written."""
    story = Story()
    made = [await story.go(2) for _ in range(marks)]
    for mark in made:
        provider.write(await story.document(mark))
    return story, made


def listed(provider: CheckpointProvider, run_id: str | None = None) -> set[str]:
    return {info.id for info in provider.list(run_id=run_id)}


async def check_all_restore(provider: CheckpointProvider) -> None:
    """Everything on the list can be read, and restored by a machine that knows nothing else."""
    there = listed(provider)
    for info in provider.list():
        assert info.parent_id is None or info.parent_id in there
        found = await import_checkpoint(elsewhere := MemoryStore(), provider.read(info.location), now_us=NOW)
        assert await positions(elsewhere, info.root_run_id, branch=info.branch) == list(range(1, found.seq + 1))


class PruningConformance(CheckpointSuite):
    """Prune."""

    async def test_prune_by_count_keeps_the_newest(self) -> None:
        async with self.opened() as provider:
            story, marks = await keep_story(provider)
            assert provider.prune(keep=2) == 3
            assert listed(provider) == {marks[3].id, marks[4].id}
            assert provider.prune(keep=2) == 0
            assert told(provider.read(marks[3].id))[1] == told(await story.document(marks[3]))[1]
            await check_all_restore(provider)

    async def test_prune_by_age_goes_by_the_checkpoints_own_time(self) -> None:
        async with self.opened() as provider:
            story = Story()
            times = [NOW + 3, NOW + 1, NOW + 2]  # neither in the order of the run nor of writing
            marks = [await story.go(at_us=at_us) for at_us in times]
            for mark in (marks[0], marks[2], marks[1]):
                provider.write(await story.document(mark))
            assert await provider.aprune(before_us=NOW + 2) == 1
            assert listed(provider) == {marks[0].id, marks[2].id}
            assert provider.prune(before_us=NOW + 3) == 1
            assert listed(provider) == {marks[0].id}

    async def test_what_either_rule_protects_stays(self) -> None:
        async with self.opened() as provider:
            _, marks = await keep_story(provider)
            assert provider.prune(keep=1, before_us=marks[2].at_us) == 2
            assert listed(provider) == {mark.id for mark in marks[2:]}
            assert provider.prune(keep=3, before_us=marks[4].at_us) == 0

    async def test_checkpoints_of_other_runs_are_left_alone(self) -> None:
        async with self.opened() as provider:
            one, _ = await keep_story(provider, 3)
            other, _ = await keep_story(provider, 3)
            assert provider.prune(run_id=one.root, keep=1) == 2
            assert len(listed(provider, other.root)) == 3
            assert provider.prune(run_id="unknown", keep=0) == 0
            assert provider.prune(keep=1) == 2
            await check_all_restore(provider)

    async def test_a_run_can_lose_all_its_checkpoints(self) -> None:
        async with self.opened() as provider:
            old, _ = await keep_story(provider, 2)
            young = Story()
            mark = await young.go(at_us=NOW + 1_000)
            provider.write(await young.document(mark))
            assert provider.prune(before_us=NOW + 500) == 2
            assert listed(provider) == {mark.id}
            assert provider.prune(run_id=young.root, keep=0) == 1
            provider.write(await young.document(mark))
            assert listed(provider) == {mark.id}
            assert listed(provider, old.root) == set()

    async def test_s1_16_prune_never_orphans_a_branch(self) -> None:
        async with self.opened() as provider:
            story = Story()
            main = [await story.go() for _ in range(3)]
            main.append(await story.go(at_us=NOW + 1_000))
            await story.fork("b", main[1])
            on_b = [await story.go(branch="b") for _ in range(3)]
            await story.fork("c", on_b[0])
            on_c = [await story.go(branch="c") for _ in range(2)]
            for mark in (*main, *on_b, *on_c):
                provider.write(await story.document(mark))
            # only one is young, on main; b and c keep their newest, and the points where they left
            for _ in range(2):  # a second time there is nothing more to drop, though the first of b and c are gone
                provider.prune(before_us=NOW + 500)
                assert listed(provider) == {each.id for each in (main[1], main[3], on_b[0], on_b[2], on_c[1])}
            parents = {info.id: info.parent_id for info in provider.list()}
            assert parents[on_c[1].id] == on_b[0].id
            assert parents[on_b[0].id] == main[1].id
            assert parents[main[1].id] is None
            for mark in (main[1], main[3], on_b[0], on_b[2], on_c[1]):
                assert told(provider.read(mark.id))[1] == told(await story.document(mark))[1]
            await check_all_restore(provider)

    async def test_what_was_pruned_may_be_written_again(self) -> None:
        async with self.opened() as provider:
            story, marks = await keep_story(provider, 3)
            provider.prune(keep=1)
            provider.write(await story.document(marks[0]))
            assert listed(provider) == {marks[0].id, marks[2].id}
            await check_all_restore(provider)

    async def test_a_prune_that_does_not_say_what_it_wants_is_refused(self) -> None:
        async with self.opened() as provider:
            await keep_story(provider, 2)
            with pytest.raises(UsageError):
                provider.prune()
            with pytest.raises(UsageError):
                await provider.aprune(keep=-1)
            assert len(listed(provider)) == 2
