"""Where no sandbox can be had, what asked for one is not run, and says why and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import SandboxError
from holdfast.resources import Command, Keeper, ProcessManager, ProcessSpec, Sandbox
from holdfast.stores import MemoryLedger
from holdfast.testing.resource_conformance import Borrower

TOOLS = ("prlimit", "touch", "env")


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is installed; no bubblewrap."""
    folder = tmp_path / "tools"
    folder.mkdir()
    install(folder, "prlimit", "exit 1")
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize(
    ("bubblewrap", "why"),
    [
        ("", r"bwrap is not installed, so nothing was run; install it: apt-get install bubblewrap"),
        (
            "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1",
            "none can be made, so nothing was run: bwrap: setting up uid map: Permission denied; allow user namespaces: see sysctl",
        ),
        ("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", r"bubblewrap 0\.8 or newer is needed"),
        ("kill -9 $$", "it ended with -9; allow user namespaces"),
    ],
)
async def test_it_is_never_run_unconfined(
    keeper: Keeper, tools: Path, tmp_path: Path, bubblewrap: str, why: str
) -> None:
    if bubblewrap:
        install(tools, "bwrap", bubblewrap)
    command = Command(("/usr/bin/touch", str(tmp_path / "ran")), sandbox=Sandbox(writable=(str(tmp_path),)))
    with pytest.raises(SandboxError, match=why):
        await keeper.spawn(command)
    ledger = MemoryLedger()
    manager = ProcessManager(ledger)
    with pytest.raises(SandboxError, match=why):
        await manager.acquire(ProcessSpec(command), Borrower())
    assert await ledger.rows() == []
    assert manager.inventory() == []
    await manager.release_all()
    assert not (tmp_path / "ran").exists()


async def test_without_the_means_to_limit_it_is_not_run_either(keeper: Keeper, tools: Path) -> None:
    install(tools, "bwrap", "exit 0")
    (tools / "prlimit").unlink()
    with pytest.raises(SandboxError, match="prlimit is not installed, so nothing was run; install util-linux"):
        await keeper.spawn(Command(("/bin/true",), sandbox=Sandbox()))
