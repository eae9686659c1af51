"""How a project serves its queue: the file, then what was changed while serving, then the environment, then flags."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.service.small_runner import SmallRunner

from holdfast.errors import ConfigurationError, UsageError
from holdfast.ports import Caps, JobStore
from holdfast.resources import SystemProcessTable
from holdfast.service import Worker, WorkerOptions, following, read_settings, with_flags, write_settings
from holdfast.testing import ManualClock

FILE = """
[worker]
places = 3
[caps]
total = 9
[caps.flow]
deploy = 1
[caps.executor]
agent = 4
[caps.agent]
claude = 2
"""


def test_without_a_file_there_are_no_caps(tmp_path: Path) -> None:
    assert read_settings(tmp_path, {}) == WorkerOptions()


def test_the_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(FILE)
    by_use = {"flow:deploy": 1, "executor:agent": 4, "agent:claude": 2}
    told = read_settings(tmp_path, {})
    assert (told.places, told.caps) == (3, Caps(9, by_use))
    told = read_settings(tmp_path, {"HOLDFAST_WORKER_PLACES": "5", "HOLDFAST_CAPS_TOTAL": "7"})
    assert (told.places, told.caps.total) == (5, 7)
    told = with_flags(told, 2, ["total=1", "flow:deploy=3", "agent:x:y=0"])
    assert (told.places, told.caps) == (2, Caps(1, by_use | {"flow:deploy": 3, "agent:x:y": 0}))


def test_what_was_changed_while_serving_goes_over_the_file_and_under_the_environment(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(FILE)
    write_settings(tmp_path, WorkerOptions(places=6, caps=Caps(None, {"flow:deploy": 2})))
    told = read_settings(tmp_path, {})
    assert (told.places, told.caps) == (6, Caps(None, {"flow:deploy": 2}))
    assert read_settings(tmp_path, {"HOLDFAST_WORKER_PLACES": "5"}).places == 5
    assert (tmp_path / "holdfast.toml").read_text() == FILE
    with pytest.raises(UsageError, match="can have no cap"):
        write_settings(tmp_path, WorkerOptions(caps=Caps(None, {"step:x": 1})))
    assert read_settings(tmp_path, {}).places == 6


@pytest.mark.parametrize("text", ["", "[]", '{"places": 0, "caps": {}}', '{"places": 1, "caps": {}, "more": 1}'])
def test_a_file_of_changes_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"settings\.json cannot be read.*remove it"):
        read_settings(tmp_path, {})


@pytest.mark.parametrize("variables", [{"HOLDFAST_WORKER_PLACES": "many"}, {"HOLDFAST_CAPS_TOTAL": "-1"}])
def test_an_environment_that_cannot_be_meant_is_refused(tmp_path: Path, variables: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="must be a number of jobs"):
        read_settings(tmp_path, variables)


@pytest.mark.parametrize("flag", ["total", "total=", "total=x", "flow=1", "flow:=1", "step:a=1", "=1", ""])
def test_a_flag_that_is_no_cap_is_refused(flag: str) -> None:
    with pytest.raises(UsageError, match="is no cap; write total=4"):
        with_flags(WorkerOptions(), None, [flag])


def test_how_large_outputs_may_be_is_set_as_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[worker]\noutput_bytes = 1000\n")
    assert read_settings(tmp_path, {}).output_bytes == 1000
    assert read_settings(tmp_path, {"HOLDFAST_OUTPUT_BYTES": "77"}).output_bytes == 77
    with pytest.raises(ConfigurationError, match="must be a number of bytes"):
        read_settings(tmp_path, {"HOLDFAST_OUTPUT_BYTES": "5MB"})


async def test_a_worker_goes_by_what_another_process_changed_and_keeps_that_if_it_is_of_no_use(
    tmp_path: Path, jobs: JobStore, runner: SmallRunner, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    worker = Worker(jobs, runner, SystemProcessTable(), clock=clock)

    async def moments_later() -> WorkerOptions:
        await clock.until_sleeping()
        clock.advance(2.0)
        await clock.until_sleeping()
        return worker.options

    async with following(worker, tmp_path, lambda: with_flags(read_settings(tmp_path, {}), None, ["total=4"]), clock):
        write_settings(tmp_path, WorkerOptions(places=3, caps=Caps(9, {"flow:deploy": 1})))
        assert await moments_later() == WorkerOptions(places=3, caps=Caps(4, {"flow:deploy": 1}))
        write_settings(tmp_path, WorkerOptions(places=2))
        assert (await moments_later()).places == 2
        (tmp_path / "settings.json").write_text("{")
        assert (await moments_later()).places == 2
        assert "the former ones count" in caplog.text
