"""What every `ResourceManager` must do. Subclass the suite in your tests and say how to make yours.

    class TestMine(ResourceManagerConformance):
        def make_manager(self) -> ResourceManager:
            return MyManager(...)

        def make_spec(self, number: int) -> object:
            return MySpec(...)

        def is_there(self, lease: Any) -> bool:
            ...

Wants pytest with `asyncio_mode = "auto"`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import ClosedError, RunEndedError, RunError
from holdfast.ids import new_id
from holdfast.ports import Lease, ResourceManager
from holdfast.runs import Run
from holdfast.runtime import Runtime


class Borrower:
    """Holds leases as a run does, for as long as it is told to."""

    def __init__(self) -> None:
        self.id = new_id()
        self.leases: list[Lease] = []
        self.has_ended = False

    def own(self, lease: Lease) -> None:
        if self.has_ended:
            raise RunEndedError("it has ended")
        self.leases.append(lease)


class ResourceManagerConformance(ABC):
    """Every promise of `holdfast.ports.ResourceManager` that does not depend on the kind of resource."""

    @abstractmethod
    def make_manager(self) -> ResourceManager:
        """A manager that holds nothing, with room for twenty resources."""

    @abstractmethod
    def make_spec(self, number: int) -> Any:
        """What to ask for; the same number may give the same resource, another number another one."""

    @abstractmethod
    def is_there(self, lease: Any) -> bool:
        """Whether the resource of a lease exists. Must answer after its release too."""

    @asynccontextmanager
    async def managed(self) -> AsyncIterator[ResourceManager]:
        manager = self.make_manager()
        try:
            yield manager
        finally:
            await manager.release_all()

    async def test_a_lease_is_owned_by_its_run_and_its_resource_goes_with_it(self) -> None:
        async with self.managed() as manager:
            run = Borrower()
            lease = await manager.acquire(self.make_spec(1), run)
            assert run.leases == [lease]
            assert lease.kind == manager.kind
            assert self.is_there(lease)
            await lease.release()
            assert not self.is_there(lease)
            assert manager.inventory() == []

    async def test_releasing_twice_is_fine(self) -> None:
        async with self.managed() as manager:
            lease = await manager.acquire(self.make_spec(1), Borrower())
            await asyncio.gather(lease.release(), lease.release())
            await lease.release()

    async def test_the_inventory_says_what_is_held_by_whom_since_when(self) -> None:
        async with self.managed() as manager:
            one, two = Borrower(), Borrower()
            first = await manager.acquire(self.make_spec(1), one)
            await manager.acquire(self.make_spec(2), two)
            held = manager.inventory()
            assert {runs for found in held for runs in found.runs} == {one.id, two.id}
            assert {found.state for found in held} == {"held"}
            assert {found.kind for found in held} == {manager.kind}
            assert all(found.since_us > 0 and found.id for found in held)
            assert first.name in [found.name for found in held]

    async def test_s3_2_the_end_of_one_run_leaves_the_other_untouched(self) -> None:
        async with self.managed() as manager:
            one, two = Borrower(), Borrower()
            first = await manager.acquire(self.make_spec(1), one)
            second = await manager.acquire(self.make_spec(1), two)
            await manager.release_for_run(one.id)
            assert self.is_there(second)
            assert {run for found in manager.inventory() for run in found.runs} == {two.id}
            await manager.release_for_run(two.id)
            assert not self.is_there(first)
            assert not self.is_there(second)
            assert manager.inventory() == []

    async def test_releasing_for_a_run_that_holds_nothing_is_fine(self) -> None:
        async with self.managed() as manager:
            await manager.release_for_run("nobody")

    async def test_s3_7_release_all_ends_everything_and_refuses_what_comes_later(self) -> None:
        manager = self.make_manager()
        leases = [await manager.acquire(self.make_spec(number), Borrower()) for number in range(3)]
        await manager.release_all()
        assert [lease for lease in leases if self.is_there(lease)] == []
        assert manager.inventory() == []
        for lease in leases:
            await lease.release()
        await manager.release_all()
        try:
            await manager.acquire(self.make_spec(1), Borrower())
        except ClosedError:
            return
        raise AssertionError("a manager that released everything made something new")

    async def test_a_run_that_has_ended_gets_nothing_and_nothing_stays(self) -> None:
        async with self.managed() as manager:
            run = Borrower()
            run.has_ended = True
            try:
                await manager.acquire(self.make_spec(1), run)
            except RunError:
                assert manager.inventory() == []
                return
            raise AssertionError("a run that has ended got a lease")

    async def test_an_acquire_that_is_cancelled_at_any_moment_leaves_nothing(self) -> None:
        async with self.managed() as manager:
            for turns in range(8):
                run = Borrower()
                asking = asyncio.create_task(manager.acquire(self.make_spec(turns), run))
                for _ in range(turns):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.wait({asking})
                for lease in run.leases:  # it was faster
                    await lease.release()
                assert manager.inventory() == []

    async def test_runs_on_other_loops_and_threads_share_the_manager(self) -> None:
        async with self.managed() as manager:

            async def elsewhere(number: int) -> Lease:
                return await manager.acquire(self.make_spec(number), Borrower())

            threads = (asyncio.to_thread(asyncio.run, elsewhere(number)) for number in (1, 1, 2))
            leases = await asyncio.gather(*threads)
            assert all(self.is_there(lease) for lease in leases)  # although the loops it was asked on are gone
            for lease in leases:
                await lease.release()
            assert not any(self.is_there(lease) for lease in leases)

    async def test_many_at_once_are_all_served_and_all_end(self) -> None:
        async with self.managed() as manager:
            runs = [Borrower() for _ in range(15)]
            asked = (manager.acquire(self.make_spec(number % 4), run) for number, run in enumerate(runs))
            leases = await asyncio.gather(*asked)
            assert all(self.is_there(lease) for lease in leases)
            await asyncio.gather(*(lease.release() for lease in leases))
            assert not any(self.is_there(lease) for lease in leases)
            assert manager.inventory() == []

    async def test_a_sweep_leaves_alone_what_is_in_use(self) -> None:
        async with self.managed() as manager:
            lease = await manager.acquire(self.make_spec(1), Borrower())
            report = await manager.sweep()
            assert (report.ended, report.left, report.problem) == ([], [], "")
            assert self.is_there(lease)

    async def test_a_run_gives_back_what_it_holds_however_it_ends(self) -> None:
        async with self.managed() as manager:
            leases: list[Lease] = []

            async def body(run: Run, how: str) -> None:
                leases.append(await manager.acquire(self.make_spec(1), run))
                if how == "fails":
                    raise ValueError(how)
                if how == "is cancelled":
                    run.cancel()
                    await asyncio.Event().wait()

            runtime = Runtime()
            try:
                for how in ("completes", "fails", "is cancelled"):
                    await asyncio.wait({asyncio.ensure_future(runtime.start(body, how).ended())})
                    assert not self.is_there(leases[-1])
            finally:
                await runtime.aclose()
            assert manager.inventory() == []
