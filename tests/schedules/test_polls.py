"""Polls: real checks under a real keeper, on the test's clock."""

from __future__ import annotations

import asyncio
import json
import os

import pytest
from msgspec.structs import replace
from tests.schedules.support import Desk, utc

from holdfast.errors import ScheduleCheckError
from holdfast.resources import Command, Keeper
from holdfast.schedules import _asking
from holdfast.schedules._asking import CURSOR_CAP, MOST, Found, read_answer
from holdfast.schedules._cron import micros
from holdfast.schedules._ticker import HOLD_US
from holdfast.testing import process_audit

COUNT = """n=$((${HOLDFAST_CURSOR:-0}+1)); printf '{"fire": [{"who": "%s"}], "cursor": %s}' "$n" "$n" """


async def warm(keeper: Keeper) -> None:
    """Have the keeper's own process run, so that it is not taken for something left behind."""
    async with await keeper.spawn(Command(("true",))) as process:
        await process.wait()


async def test_a_poll_fires_with_what_its_check_says_and_goes_on_from_its_cursor(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=COUNT, overlap="allow", inputs={"who": "nobody"})
    await desk.look("12:00")
    await desk.look("12:00:59")
    await desk.look("12:01")
    assert [json.loads(job.inputs) for job in await desk.all_jobs()] == [{"who": "1"}, {"who": "2"}]
    assert await desk.outcomes() == ["fired", "fired"]
    assert (await desk.service.get("nightly")).cursor == b"2"


async def test_the_cursor_survives_whoever_read_it(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=COUNT, overlap="allow")
    await desk.look("12:00")
    desk.ticker = desk.new_ticker()
    await desk.look("12:05")
    assert (await desk.service.get("nightly")).cursor == b"2"


async def test_a_check_without_a_reason_fires_nothing_and_may_move_its_cursor(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command="""printf '{"fire": false, "cursor": {"seen": ["a b"]}}'""")
    await desk.look("12:00")
    assert (await desk.outcomes(), await desk.all_jobs()) == (["nothing"], [])
    await desk.add(name="other", every_seconds=60, command="true")
    await desk.look("12:02")
    assert await desk.outcomes("other") == ["nothing"]
    assert (await desk.service.get("nightly")).cursor == b'{"seen":["a b"]}'


async def test_a_check_knows_cursor_schedule_and_project(kept_desk: Desk) -> None:
    desk = kept_desk
    told = '[ -z "${HOLDFAST_CURSOR+set}" ]; printf \'%s|%s|%s\' "$?" "$HOLDFAST_CURSOR" "$HOLDFAST_SCHEDULE" >> told'
    await desk.add(every_seconds=60, command=f"""{told}; printf '{{"fire": false, "cursor": "a \\\\"b"}}'""")
    await desk.look("12:00")
    await desk.look("12:01")
    assert (desk.project / "told").read_text() == '0||nightly1|a "b|nightly'


async def test_a_program_with_arguments_is_run_without_a_shell(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=("/bin/echo", '{"fire": true, "cursor": "$HOME"}'))
    await desk.look("12:00")
    assert ((await desk.service.get("nightly")).cursor, await desk.outcomes()) == (b'"$HOME"', ["fired"])


async def test_a_function_is_given_the_cursor_and_what_it_prints_is_no_answer(kept_desk: Desk) -> None:
    desk = kept_desk
    (desk.project / "checks.py").write_text(
        "async def new(cursor):\n    print('noise')\n    n = (cursor or {'n': 0})['n'] + 1\n"
        "    return {'fire': n > 1, 'cursor': {'n': n}}\n"
    )
    await desk.add(every_seconds=60, call="checks:new")
    await desk.look("12:00")
    await desk.look("12:01")
    assert await desk.outcomes() == ["nothing", "fired"]


async def test_one_check_may_fire_several_jobs(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(flow="needy", every_seconds=60, command="""echo '{"fire": [{"item": 1}, {"item": 2}]}'""")
    await desk.look("12:00")
    assert [json.loads(job.inputs)["item"] for job in await desk.all_jobs()] == [1, 2]
    ticks = await desk.ticks()
    assert ({tick.due_us for tick in ticks}, [tick.outcome for tick in ticks]) == ({ticks[0].due_us}, ["fired"] * 2)


async def test_if_one_of_several_cannot_be_made_none_is_and_the_cursor_stays(kept_desk: Desk) -> None:
    desk = kept_desk
    command = """echo '{"fire": [{"item": 1}, {"item": "x"}], "cursor": 9}'"""
    await desk.add(flow="needy", every_seconds=60, command=command)
    await desk.look("12:00")
    assert (await desk.outcomes(), await desk.all_jobs()) == (["failed"], [])
    assert (await desk.service.get("nightly")).cursor == b"null"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo oops >&2; exit 3", "the check: it ended with exit code 3: oops"),
        ("kill -9 $$", "the check: it was killed by signal 9"),
        ("echo hello", 'the check printed something else than {"fire"'),
        ("echo '{\"fire\": 1}'", "something else"),
        ('echo \'{"fire": true, "curser": 1}\'', "curser"),
        ("echo '{}'", "something else"),
        ("head -c 2000000 /dev/zero", "the check: it wrote more than 1,048,576 bytes"),
        ("/nowhere/at/all", "exit code 127"),
    ],
)
async def test_a_check_that_goes_wrong_is_an_error_of_the_tick(kept_desk: Desk, command: str, says: str) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=command, pause_after_errors=1)
    await desk.look("12:00")
    (tick,) = await desk.ticks()
    assert (tick.outcome, says in tick.reason) == ("failed", True), tick.reason
    schedule = await desk.service.get("nightly")
    assert (schedule.status, schedule.cursor, schedule.held_until_us) == ("paused", b"null", 0)


async def test_a_program_that_is_not_there_and_a_function_that_is_not_are_told(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=("/nowhere/at/all",))
    await desk.add(name="other", every_seconds=60, call="nowhere:new")
    await desk.look("12:00")
    assert "cannot start /nowhere/at/all" in (await desk.ticks())[0].reason
    assert "No module named 'nowhere'" in (await desk.ticks("other"))[0].reason


async def test_a_check_that_takes_too_long_is_ended_with_all_it_started(
    kept_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = kept_desk
    monkeypatch.setattr(_asking, "CHECK_SECONDS", 0.2)
    await desk.add(every_seconds=60, command="sleep 300 & sleep 300")
    await warm(desk.keeper)
    with process_audit():
        await desk.look("12:00")
    assert (await desk.ticks())[0].reason == "the check took longer than 0.2 s and was ended"


async def test_what_a_check_leaves_behind_is_ended(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command="""sleep 300 & echo '{"fire": true}'""")
    await warm(desk.keeper)
    with process_audit():
        await desk.look("12:00")
    assert await desk.outcomes() == ["fired"]


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_a_check_is_made_only_when_its_answer_could_be_used(kept_desk: Desk, overlap: str) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command=COUNT, overlap=overlap)
    await desk.look("12:00")
    await desk.look("12:01")
    await desk.look("12:02")
    held = {"skip": ["skipped", "skipped"], "queue": ["queued", "skipped"]}[overlap]
    assert (await desk.outcomes(), (await desk.service.get("nightly")).cursor) == (["fired", *held], b"1")
    await desk.end()
    await desk.look("12:02:30")
    fired = {"skip": ["fired", "skipped", "skipped"], "queue": ["fired", "fired", "skipped"]}[overlap]
    assert await desk.outcomes() == fired


async def test_while_a_check_is_made_nobody_else_makes_it(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command="echo x >> made; echo '{\"fire\": true}'")
    desk.clock.set(utc("2026-06-01 12:00"))
    other = desk.new_ticker()
    async with asyncio.TaskGroup() as group:
        await asyncio.gather(desk.ticker.look(group), other.look(group))
    assert ((desk.project / "made").read_text(), await desk.outcomes()) == ("x\n", ["fired"])


async def test_a_check_whose_maker_is_gone_is_made_again_with_the_same_cursor(kept_desk: Desk) -> None:
    desk = kept_desk
    schedule = await desk.add(every_seconds=60, command=COUNT)
    now_us = micros(utc("2026-06-01 12:00"))
    await desk.store.record(replace(schedule, held_until_us=now_us + HOLD_US))
    await desk.look("12:01:14")
    assert await desk.outcomes() == []
    await desk.look("12:01:15")
    assert (await desk.outcomes(), (await desk.service.get("nightly")).cursor) == (["fired"], b"1")


async def test_what_is_found_for_a_schedule_that_was_paused_meanwhile_is_dropped(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(every_seconds=60, command="echo begun > begun; until [ -e open ]; do sleep 0.01; done; " + COUNT)
    desk.clock.set(utc("2026-06-01 12:00"))
    async with asyncio.TaskGroup() as group:
        await desk.ticker.look(group)
        await desk.service.pause("nightly")
        (desk.project / "open").touch()
    assert (await desk.all_jobs(), await desk.outcomes()) == ([], [])
    schedule = await desk.service.get("nightly")
    assert (schedule.status, schedule.cursor) == ("paused", b"null")


async def test_a_slow_check_does_not_hold_up_other_schedules(kept_desk: Desk) -> None:
    desk = kept_desk
    await desk.add(name="slow", every_seconds=30, command="until [ -e open ]; do sleep 0.01; done")
    await desk.add(name="quick")
    desk.clock.set(utc("2026-06-01 12:00"))
    async with asyncio.TaskGroup() as group:
        await desk.ticker.look(group)
        assert await desk.outcomes("quick") == ["fired"]
        (desk.project / "open").touch()
    assert await desk.outcomes("slow") == ["nothing"]


async def test_leaving_ends_the_check_that_is_being_made_and_leaves_it_to_the_next(kept_desk: Desk) -> None:
    desk = kept_desk
    os.mkfifo(desk.project / "begun")
    await desk.add(every_seconds=1, command="echo > begun; sleep 300")
    desk.clock.set(utc("2026-06-01 12:00"))
    await warm(desk.keeper)
    with process_audit():
        async with desk.ticker.ticking():
            await asyncio.to_thread((desk.project / "begun").read_text)
    now_us = micros(desk.clock.now)
    assert [schedule.name for schedule in await desk.store.due(now_us=now_us)] == ["nightly"]


def test_what_a_check_prints_is_read_strictly() -> None:
    assert read_answer(" \n", b"5") == Found((), b"5")
    assert read_answer('{"fire": true}', b"5") == Found(({},), b"5")
    assert read_answer('{"fire": [], "cursor": null}', b"5") == Found((), b"null")
    for wrong in ("[]", '{"fire": "yes"}', '{"fire": [1]}', "{", '{"fire": true} x', "[" * 100_000):
        with pytest.raises(ScheduleCheckError, match="something else"):
            read_answer(wrong, b"5")
    with pytest.raises(ScheduleCheckError, match="keep it below 65,536"):
        read_answer(json.dumps({"fire": False, "cursor": "x" * CURSOR_CAP}), b"5")
    with pytest.raises(ScheduleCheckError, match="would fire 101 jobs"):
        read_answer(json.dumps({"fire": [{}] * (MOST + 1)}), b"5")
