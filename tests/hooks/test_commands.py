"""Hooks that are commands: told on standard input and in the environment, bounded, and nothing of them is left."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator

import pytest
from tests.hooks.support import Post, hook

from holdfast.hooks import Patience
from holdfast.testing import process_audit
from holdfast.testing._job_base import running
from holdfast.testing._outbox_base import append, begin_journal, completed

Make = Callable[[str], Post]
QUICK = Patience(post=5, command=1.0)


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("the audit that every test here ends with needs Linux")
    with process_audit():
        yield


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    with open("pid", "w") as file:
        file.write(str(child))
    os._exit(0)
os.wait()
"""


def command(*argv: str, on: str = '"completed"') -> str:
    return hook(on=on, more=f"command = {json.dumps(argv)}")


def python(code: str) -> str:
    return command(sys.executable, "-c", code)


async def test_a_command_is_told_on_its_input_and_in_its_environment(make_post: Make) -> None:
    post = make_post(command("sh", "-c", "cat > told.json; env > env.txt"))
    job = await post.ended(name="a\0b\nc", flow="deploy")
    async with post.deliverer():
        (one,) = await post.settled()
    assert (post.folder / "told.json").read_bytes() == one.body
    env = (post.folder / "env.txt").read_text()
    for line in ("EVENT=completed", f"JOB_ID={job.id}", "FLOW=deploy", "JOB_STATUS=completed", f"DELIVERY_ID={one.id}"):
        assert f"HOLDFAST_{line}\n" in env
    assert "HOLDFAST_JOB_NAME=ab\nc\n" in env


async def test_a_step_that_completed_is_told_by_name(make_post: Make) -> None:
    post = make_post(command("sh", "-c", 'echo "$HOLDFAST_STEP" >> steps', on='"step_completed"'))
    job = await running(post.jobs)
    session = await begin_journal(post.store, job)
    await append(post.store, session, [completed("build", 1, job.id), completed("test", 2, job.id)])
    async with post.deliverer():
        await post.settled()
    assert (post.folder / "steps").read_text() == "build\ntest\n"


@pytest.mark.parametrize(
    ("toml", "error"),
    [
        (command("sh", "-c", "echo it is broken >&2; exit 3"), "sh ended with exit code 3: it is broken"),
        (command("sh", "-c", "kill -9 $$"), "sh was killed by signal 9"),
        (command("no-such-program"), "cannot start no-such-program: there is no such command"),
        (command("sh", "-c", "trap '' TERM; while :; do sleep 100; done"), "sh did not end within 1 s, and was ended"),
        (python("import sys\nwhile True: sys.stdout.write('x' * 9999)"), "did not end within 1 s"),
        (python("import sys\nwhile True: sys.stderr.write('x' * 9999)"), "did not end within 1 s"),
    ],
    ids=["fails", "dies", "missing", "hangs", "floods", "floods its errors"],
)
async def test_a_command_that_fails_hangs_or_floods_is_ended_and_tried_again(
    make_post: Make, toml: str, error: str
) -> None:
    post = make_post(toml)
    await post.ended()
    async with post.deliverer(patience=QUICK):
        one = await post.tried(1)
    assert error in one.error
    assert len(one.error) < 1000


async def test_what_a_command_leaves_behind_is_ended_with_it(make_post: Make) -> None:
    post = make_post(python(DAEMON))
    await post.ended()
    async with post.deliverer():
        await post.settled()
        with pytest.raises(ProcessLookupError):
            os.kill(int((post.folder / "pid").read_text()), 0)


async def test_leaving_ends_a_command_that_is_at_work(make_post: Make) -> None:
    post = make_post(command("sh", "-c", "echo > begun; sleep 1000"))
    await post.ended()
    async with post.deliverer():
        await post.until(lambda _: (post.folder / "begun").exists())
    (one,) = await post.until(lambda found: bool(found[0].error))
    assert (one.status, one.error) == ("pending", "its deliverer left")
