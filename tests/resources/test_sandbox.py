"""A command in a sandbox reaches what was declared and nothing else; attacked from inside."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.resources.boxes import confined, confined_python, everything, need_a_sandbox, outcome
from tests.resources.killing import all_end, heard, owner
from tests.resources.trees import HOSTILE, is_alive, left

from holdfast.errors import SandboxError, UsageError
from holdfast.resources import Command, Keeper, Limits, ProcessManager, ProcessSpec, Sandbox, SystemProcessTable
from holdfast.resources._kept import kill_carriers
from holdfast.stores import MemoryLedger
from holdfast.testing._audit import wait_for_the_end
from holdfast.testing.resource_conformance import Borrower


@pytest.fixture(autouse=True)
def sandboxes_can_be_had() -> None:
    need_a_sandbox()


def exists(path: str) -> bool:
    return os.path.exists(path)


def told(pid: int, what: str) -> bytes:
    return Path(f"/proc/{pid}/{what}").read_bytes()


async def test_it_writes_where_it_was_allowed_and_nowhere_else(keeper: Keeper, tmp_path: Path) -> None:
    mine, shown = tmp_path / "mine", tmp_path / "shown"
    mine.mkdir()
    shown.mkdir()
    (shown / "text").write_text("readable\n")
    script = f"""
        cat {shown}/text; echo made > {mine}/made
        for place in / /usr /etc /dev /proc /proc/sys/kernel /usr/bin {shown} {tmp_path}; do
            touch $place/intruder 2>/dev/null && echo wrote to $place
        done
        echo changed > {shown}/text
        rm -rf {shown} 2>/dev/null
        touch ~/scratch /tmp/scratch && echo scratch
    """
    _, said = await outcome(keeper, confined(script, readable=(str(shown),), writable=(str(mine),)))
    assert "readable\n" in said
    assert "wrote to" not in said.replace(f"wrote to {tmp_path}\n", "")  # what leads to it is scratch, not ours
    assert said.endswith("scratch\n")
    assert (mine / "made").read_text() == "made\n"
    assert (shown / "text").read_text() == "readable\n"
    assert sorted(os.listdir(tmp_path)) == ["mine", "shown"]
    assert not exists(os.environ.get("HOME", "") + "/scratch")


async def test_it_reads_no_secret_of_the_machine_the_user_or_the_project(keeper: Keeper, tmp_path: Path) -> None:
    store = tmp_path / ".holdfast" / "holdfast.db"
    store.parent.mkdir()
    store.write_text("journal")
    (tmp_path / "code").write_text("code\n")
    workspace = store.parent / "workspaces" / "job"
    workspace.mkdir(parents=True)
    script = f"""
        cat {tmp_path}/code
        cat /etc/shadow /etc/ssh/* ~/.ssh/* ~/.bashrc ~/.netrc {store} /proc/kcore /var/log/* /run/* 2>/dev/null
        ls -A {tmp_path}/.holdfast /home /root /var /run /sys /boot /srv /opt /mnt 2>/dev/null | grep -v :
        touch {tmp_path}/.holdfast/x 2>/dev/null && echo wrote
        touch {workspace}/here
    """
    writable = (str(tmp_path), str(workspace))
    _, said = await outcome(keeper, confined(script, writable=writable, env={"HOME": "/home/someone"}))
    assert sorted(said.split()) == ["code", "someone", "workspaces"]
    assert store.read_text() == "journal"
    assert (workspace / "here").exists()


async def test_links_lead_nowhere(keeper: Keeper, tmp_path: Path) -> None:
    mine, secret = tmp_path / "mine", tmp_path / "secret"
    mine.mkdir()
    secret.write_text("secret")
    (mine / "out").symlink_to(secret)
    (mine / "up").symlink_to("..")
    script = f"cd {mine}; cat out up/secret ../secret; echo x > out; ln -s /etc/shadow s; cat s; ln {secret} h; cat h"
    _, said = await outcome(keeper, confined(script, writable=(str(mine),)))
    assert "secret" not in said.replace("/secret", "").replace("out: No such file", "")
    assert secret.read_text() == "secret"


async def test_a_declared_path_that_is_or_goes_through_a_link_is_refused(keeper: Keeper, tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for path in (tmp_path / "link", tmp_path / "link" / "deep"):
        with pytest.raises(SandboxError, match=r"does not follow links: .*/link.* leads to .*/real"):
            await keeper.spawn(confined("true", writable=(str(path),)))


async def test_it_has_no_network_unless_declared(keeper: Keeper) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"holdfast-test-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        code = f"""if True:
            import socket
            for family, where in ((socket.AF_INET, {server.getsockname()!r}), (socket.AF_UNIX, "\\0{name}")):
                try:
                    socket.socket(family).connect(where)
                    print("connected")
                except OSError as error:
                    print("refused")
            print(*[name for _, name in socket.if_nameindex()])
        """
        assert (await outcome(keeper, confined_python(code)))[1].split() == ["refused", "refused", "lo"]
        said = (await outcome(keeper, confined_python(code, network="host")))[1]
        assert said.split()[:2] == ["connected", "connected"]


async def test_it_sees_and_signals_no_process_but_its_own(keeper: Keeper) -> None:
    """Only signal 0 and a process of our own: if the walls are down, others must not suffer."""
    async with await keeper.spawn(Command(("/bin/cat",))) as neighbour:
        pids = f"{os.getpid()} {os.getppid()} {neighbour.pid}"
        script = f"""
            for pid in {pids}; do kill -0 $pid 2>/dev/null && echo reached; done
            kill -9 {neighbour.pid} 2>/dev/null
            ls /proc | grep -cE '^[0-9]+$'
        """
        assert int((await outcome(keeper, confined(script)))[1]) <= 5
        assert neighbour.returncode is None


async def test_it_has_no_rights_and_gets_none_nor_any_setting_of_the_kernel_although_it_may_be_roots(
    keeper: Keeper,
) -> None:
    script = """
        grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status
        (mount -t tmpfs none /tmp || unshare -U true || chroot / true || mknod /tmp/sda b 8 0) 2>/dev/null && echo opened
        for file in $(find /proc -maxdepth 3 -type f ! -path '/proc/[0-9]*' ! -path '/proc/*self/*'); do
            (: >> $file) 2>/dev/null && echo opened $file
        done
        (: >> /proc/sys/kernel/core_pattern) 2>&1
        cat /proc/1/root/etc/shadow
        ls /proc/self/fd | wc -l
    """
    lines = (await outcome(keeper, confined(script)))[1].splitlines()
    assert [line.split()[1].strip("0") for line in lines[:3]] == ["", "", "1"]
    assert not [line for line in lines if line.startswith("opened")]
    assert lines[-1] == "4"  # three, and the folder itself


async def test_nothing_of_our_environment_leaks(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "do-not-show")
    monkeypatch.setenv("LC_TIME", "C")
    said = (await outcome(keeper, confined("cat /proc/*/environ | tr '\\0' '\\n'")))[1]
    assert "do-not-show" not in said
    assert "LC_TIME=C" in said
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert names <= {"HOME", "PATH", "LANG", "LANGUAGE", "TERM", "TZ", "PWD", "OLDPWD", "_"} | {
        name for name in os.environ if name.startswith("LC_")
    }


async def test_what_the_command_brings_arrives_and_is_on_no_command_line(keeper: Keeper) -> None:
    env = {"TOKEN": "do-not-show", "LD_LIBRARY_PATH": "/planted", "PATH": "/usr/bin:/bin"}
    async with await keeper.spawn(confined("echo $TOKEN $LD_LIBRARY_PATH; exec cat", env=env)) as process:
        assert await process.readline() == b"do-not-show /planted\n"
        for use in process.processes():
            assert b"do-not-show" not in told(use.pid, "cmdline")
        assert told(process.pid, "environ") == b""  # what is planted inside must not be loaded by what is outside


async def test_a_fork_bomb_stays_within_its_limit(keeper: Keeper) -> None:
    bomb = """if True:
        import os, time
        for count in range(20_000):
            try:
                if not os.fork():
                    time.sleep(1000)
            except OSError:
                print("refused at", count, flush=True)
                break
    """
    async with await keeper.spawn(confined_python(bomb, processes=40)) as process:
        said = await everything(process)
        code = await process.wait()
        if os.getuid():
            assert 30 <= int(said.split()[-1]) <= 40
        else:  # root is not refused; the keeper ends it
            assert (said, code) == ("", -signal.SIGKILL)
    assert left(keeper) == []


async def test_limits_of_memory_files_time_and_scratch_hold(keeper: Keeper, tmp_path: Path) -> None:
    code = f"""if True:
        import resource, signal
        def attempt(what):
            try:
                what()
                print("done")
            except (MemoryError, OSError) as error:
                print(type(error).__name__, getattr(error, "errno", ""))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        attempt(lambda: bytearray(300 << 20))
        attempt(lambda: open({str(tmp_path / "big")!r}, "wb").write(bytes(3 << 20)))
        attempt(lambda: [open(f"/tmp/{{n}}", "wb").write(bytes(1 << 20)) for n in range(20)])
        attempt(lambda: [open(f"/dev/shm/{{n}}", "wb").write(bytes(1 << 20)) for n in range(90)])
        attempt(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)) and None)
    """
    small = {"memory_bytes": 200 << 20, "file_bytes": 2 << 20, "scratch_bytes": 10 << 20, "writable": (str(tmp_path),)}
    said = (await outcome(keeper, confined_python(code.replace("OSError", "OSError, ValueError"), **small)))[1]
    assert said.splitlines() == ["MemoryError ", "OSError 27", "OSError 28", "OSError 28", "ValueError "]
    ended, _ = await outcome(keeper, confined("while :; do :; done", cpu_seconds=1))
    assert ended in (128 + signal.SIGXCPU, 128 + signal.SIGKILL)


# -- its end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - {"hopper"}))
async def test_s3_10_whatever_it_starts_inside_ends_with_it(keeper: Keeper, name: str) -> None:
    process = await keeper.spawn(replace(confined(HOSTILE[name]), grace=0.2, stderr="ring"))
    assert await process.readline() == b"ready\n"
    await process.end()
    assert left(keeper) == []


async def test_a_tree_in_which_no_pid_stays_ends_too(keeper: Keeper) -> None:
    hopper = Path(__file__).with_name("hopper.py")
    process = await keeper.spawn(confined_python(hopper.read_text()))
    assert await process.readline() == b"ready\n"
    await process.end(0)
    assert left(keeper) == []


async def test_it_gets_to_clean_up_when_it_is_ended(keeper: Keeper, tmp_path: Path) -> None:
    script = f"trap 'sleep 0.3; echo bye > {tmp_path}/note; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    process = await keeper.spawn(confined(script, writable=(str(tmp_path),)))
    await process.readline()
    await process.end(30)
    assert (tmp_path / "note").read_text() == "bye\n"


async def test_how_it_ended_is_told(keeper: Keeper) -> None:
    assert (await outcome(keeper, confined("exit 7")))[0] == 7
    assert (await outcome(keeper, confined("kill -9 $$")))[0] == 128 + 9


async def test_killing_its_first_process_or_all_that_carry_its_tag_leaves_nothing(keeper: Keeper) -> None:
    script = "(setsid sleep 1000 &) ; echo ready; sleep 1000"
    for way in ("leader", "tag", "stub"):
        process = await keeper.spawn(confined(script))
        await process.readline()
        pids = [use.pid for use in process.processes()]
        if way == "tag":
            assert len(SystemProcessTable().carriers(process.tag)) >= 3  # also those inside
            assert await asyncio.to_thread(kill_carriers, SystemProcessTable(), process.tag) == []
        else:
            assert process.keeper is not None
            os.kill(process.pid if way == "leader" else process.keeper.pid, signal.SIGKILL)
        await process.gone()
        assert [pid for pid in pids if is_alive(pid)] == []
        await process.end()


def test_s3_10_kill_9_of_the_owner_leaves_nothing_of_its_sandboxes() -> None:
    with owner("confined", "8") as process:
        pids = heard(process)["pids"]
        assert len(pids) >= 8 * 4
        process.kill()
        assert all_end(pids, 2.0)
        assert wait_for_the_end(set(), 5) == []


@pytest.mark.parametrize("count", range(4))
def test_an_owner_killed_in_the_middle_of_confining_leaves_nothing(count: int) -> None:
    with owner("confine_for_ever") as process:
        for _ in range(count + 1):
            heard(process)
        process.kill()
        process.wait()
        assert wait_for_the_end(set(), 10) == []


async def test_runs_share_a_sandboxed_process_only_if_the_sandbox_is_the_same() -> None:
    manager = ProcessManager(MemoryLedger(), limits=Limits())
    one, same, other = (
        ProcessSpec(confined("exec cat")),
        ProcessSpec(confined("exec cat")),
        confined("exec cat", processes=9),
    )
    first = await manager.acquire(one, Borrower())
    assert (await manager.acquire(same, Borrower())).resource is first.resource
    assert (await manager.acquire(ProcessSpec(other), Borrower())).resource is not first.resource
    await manager.release_all()


# -- what cannot be ----------------------------------------------------------------------------------------------------


async def test_a_program_or_folder_that_it_does_not_show_is_named(keeper: Keeper, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    for argv in ((str(program),), ("program",), ("no-such-command",)):
        with pytest.raises(SandboxError, match=r"cannot start .* in the sandbox, which does not show it; declare"):
            await keeper.spawn(Command(argv, env={"PATH": str(tmp_path)}, sandbox=Sandbox()))
    shown = Sandbox(readable=(str(tmp_path),))
    assert await outcome(keeper, Command(("program",), env={"PATH": str(tmp_path)}, sandbox=shown)) == (0, "hello\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(program)
    partly = Sandbox(readable=(str(tmp_path / "elsewhere"),))
    with pytest.raises(SandboxError, match=f"it is {program}, which it does not show"):
        await keeper.spawn(Command((str(tmp_path / "elsewhere" / "link"),), sandbox=partly))
    with pytest.raises(SandboxError, match="the sandbox does not show it; declare it"):
        await keeper.spawn(confined("true", cwd=str(tmp_path)))
    assert (await outcome(keeper, confined("pwd", cwd=str(tmp_path), readable=(str(tmp_path),))))[1] == f"{tmp_path}\n"


async def test_a_declared_path_must_be_there_and_be_no_projects_store(keeper: Keeper, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="does not exist; make it first"):
        await keeper.spawn(confined("true", readable=(str(tmp_path / "no"),)))
    (tmp_path / ".holdfast").mkdir()
    with pytest.raises(SandboxError, match="a project's store is in it"):
        await keeper.spawn(confined("true", readable=(str(tmp_path / ".holdfast"),)))


@pytest.mark.parametrize("path", ["/", "/proc/1", "/dev", "work", "/work/", "/work/../etc", "/work\0"])
def test_what_can_never_be_declared_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="a sandbox"):
        Sandbox(writable=(path,))


@pytest.mark.parametrize("env", [{"A": "x\0--bind\0/\0/"}, {"A\0--share-net": "x"}])
async def test_no_option_is_smuggled_in_with_the_environment(keeper: Keeper, env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="null character"):
        await keeper.spawn(confined("ls /root", env=env))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="more than nothing"):
        Sandbox(processes=0)
    with pytest.raises(UsageError, match="network is none or host, not True"):
        Sandbox(network=True)  # type: ignore[arg-type]
    with pytest.raises(msgspec.ValidationError, match="unknown field `writeable`"):
        msgspec.convert({"writeable": ["/work"]}, Sandbox)
    assert msgspec.convert({"writable": ["/work"]}, Sandbox) == Sandbox(writable=("/work",))


async def test_a_sandbox_gives_no_privileges(keeper: Keeper) -> None:
    with pytest.raises(UsageError, match="cannot gain privileges"):
        await keeper.spawn(Command(("/bin/true",), may_gain_privileges=True, sandbox=Sandbox()))
