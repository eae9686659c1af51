"""`holdfast checkpoint export` and `import`: from one machine to another."""

from __future__ import annotations

import asyncio
import stat
import subprocess
from pathlib import Path

from tests.cli.support import COMMAND, Project, new_project

from holdfast.stores import SqliteStore


def a_checkpoint(project: Project) -> str:
    """The one after `price` of the run that failed."""

    async def find() -> str:
        async with SqliteStore(project.database) as store:
            [run] = [info for info in await store.runs(status="failed") if info.name == "Checkout"]
            return (await store.marks(run.root_run_id))[1].id

    return asyncio.run(find())


def test_s1_16_an_exported_checkpoint_is_resumed_where_the_journal_never_was(recorded: Project, tmp_path: Path) -> None:
    mark = a_checkpoint(recorded)
    file = tmp_path / "order.json"
    told = recorded.json("checkpoint", "export", mark[-8:], str(file))
    assert told == {"id": mark, "file": str(file), "size": file.stat().st_size}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    elsewhere = new_project(tmp_path / "elsewhere")
    imported = elsewhere.json("checkpoint", "import", str(file))
    assert imported["id"] == mark
    assert elsewhere.json("checkpoint", "import", str(file)) == imported
    here, there = (project.json("checkpoint", "show", mark) for project in (recorded, elsewhere))
    assert (here["state"], here["steps"]) == (there["state"], there["steps"])
    done = elsewhere.json("checkpoint", "resume", mark, "--flow", "shop:Checkout")
    assert (done["status"], done["result"]) == ("completed", "shipped for 44.5")


def test_dashes_stand_for_stdout_and_stdin(recorded: Project, tmp_path: Path) -> None:
    mark = a_checkpoint(recorded)
    exported = recorded("checkpoint", "export", mark, "-")
    assert (exported.stderr, exported.returncode) == ("", 0)
    imported = subprocess.run(
        [*COMMAND, "checkpoint", "import", "-", "--branch", "theirs", "--store", str(tmp_path / "new.db")],
        cwd=tmp_path, input=exported.stdout, capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip
    assert (imported.stderr, imported.returncode) == ("", 0)
    assert ", branch theirs\n" in imported.stdout
    assert imported.stdout.endswith("--flow tests.cli.shop:Checkout\n")


def test_of_a_run_that_has_ended_import_suggests_a_branch(recorded: Project, tmp_path: Path) -> None:
    [ended] = [run for run in recorded.json("checkpoint", "list", "--tree") if run["status"] == "completed"]
    recorded("checkpoint", "export", ended["run_id"], str(tmp_path / "ended.json"))
    imported = new_project(tmp_path / "elsewhere")("checkpoint", "import", str(tmp_path / "ended.json"))
    assert (imported.stderr, imported.returncode) == ("", 0)
    said = imported.stdout.splitlines()[1]
    assert said.startswith("its run is completed; branch off from it: holdfast checkpoint fork ")


def test_what_cannot_be_written_or_read_is_said_in_a_sentence(recorded: Project, tmp_path: Path) -> None:
    mark = a_checkpoint(recorded)
    for target, code in ((str(tmp_path), 2), ("/dev/null", 2), (str(recorded.folder / "shop.py" / "x.json"), 1)):
        done = recorded("checkpoint", "export", mark, target)
        assert (done.stdout, done.returncode) == ("", code)
        assert done.stderr.count("\n") == 1
    assert Path("/dev/null").is_char_device()
    other = new_project(tmp_path / "other")
    for source in ("none.json", "shop.py"):
        done = other("checkpoint", "import", source)
        assert (done.stdout, done.returncode) == ("", 1)
        assert done.stderr.count("\n") == 1
    nowhere = Project(tmp_path)
    assert nowhere("checkpoint", "import", "other/shop.py").returncode == 3
