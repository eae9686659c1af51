"""What a CheckpointConfig may say."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CheckpointConfig
from holdfast.errors import UsageError


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"durability": "sync"}, "durability='sync' is none of step, async, exit"),
        ({"on_change": "ok"}, "on_change='ok' is none of refuse, adopt"),
        ({"max_checkpoints": 0}, "would keep none; write 1 or more"),
        ({"on_events": "task_completed"}, r"on_events=\('task_completed',\)"),
        ({"on_events": ["task_complete"]}, "did you mean 'task_completed'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CheckpointConfig(**given)


def test_events_may_be_listed() -> None:
    assert CheckpointConfig(on_events=["task_completed"]).on_events == ["task_completed"]
