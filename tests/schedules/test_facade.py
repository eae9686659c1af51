from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast.schedules


def test_every_exported_name_is_there() -> None:
    assert sorted(holdfast.schedules.__all__) == dir(holdfast.schedules)
    for name in holdfast.schedules.__all__:
        assert getattr(holdfast.schedules, name).__name__ == name
    with pytest.raises(AttributeError):
        holdfast.schedules.Crontab  # noqa: B018


def test_importing_it_costs_nothing() -> None:
    report = "import sys, holdfast.schedules; print('cronsim' in sys.modules, 'holdfast.jobs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", report], check=True, capture_output=True, text=True)
    assert done.stdout == "False False\n"
