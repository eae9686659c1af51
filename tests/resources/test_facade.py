"""What `holdfast.resources` exports, what importing it loads, and what a fork does to it."""

from __future__ import annotations

import pytest
from tests.runs.support import run_script

import holdfast.resources


def test_every_exported_name_is_there() -> None:
    assert sorted(holdfast.resources.__all__) == dir(holdfast.resources)
    for name in holdfast.resources.__all__:
        assert getattr(holdfast.resources, name).__name__ == name
    with pytest.raises(AttributeError):
        holdfast.resources.Nothing  # noqa: B018


def test_a_runtime_without_resources_does_not_pay_for_them() -> None:
    done = run_script(
        """
        import sys, holdfast
        holdfast.Runtime
        print([name for name in ("holdfast.resources._pool", "holdfast.resources._keeper") if name in sys.modules])
        """
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_forked_child_holds_nothing_of_its_parents_and_may_hold_things_of_its_own() -> None:
    done = run_script(
        """
        import asyncio, os, warnings
        warnings.simplefilter("ignore")  # Python warns of forks beside threads
        from holdfast.resources import Command, ProcessManager, ProcessSpec
        from holdfast.stores import MemoryLedger
        from holdfast.testing.resource_conformance import Borrower

        manager = ProcessManager(MemoryLedger())
        spec = ProcessSpec(Command(("cat",)))

        async def talk() -> str:
            lease = await manager.acquire(spec, Borrower())
            await lease.resource.write(b"hello\\n")
            answer = await lease.resource.readline()
            assert [found.runs for found in manager.inventory()] == [(lease.run_id,)]
            return lease, answer

        lease, answer = asyncio.run(talk())
        child = os.fork()
        if not child:
            assert manager.inventory() == []
            asyncio.run(lease.release())  # not the child's to end
            own, answer = asyncio.run(talk())
            assert own.resource.pid != lease.resource.pid
            asyncio.run(manager.release_all())
            print("child", answer, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert lease.resource.returncode is None
        asyncio.run(manager.release_all())
        print("parent", lease.resource.is_gone, manager.inventory())
        """
    )
    assert (done.stdout, done.stderr) == ("child b'hello\\n'\nparent True []\n", "")
