"""Log lines that say which run they belong to.

The library only ever calls `logging.getLogger("holdfast…")`; it installs nothing. A program that wants run ids in its
lines calls `configure()`, or adds `RunFilter` to handlers of its own and uses `%(run_id)s`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO

from holdfast.context import position

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "run_id",
    "step_id",
    "task_id",
    "agent_id",
}


def get_logger(name: str) -> logging.Logger:
    """A logger below `holdfast`."""
    return logging.getLogger(f"holdfast.{name}")


class RunFilter(logging.Filter):
    """Adds `run_id`, `step_id`, `task_id` and `agent_id` to every record, empty outside a run. Drops nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        here = position.get()
        record.run_id = here.run_id or ""
        record.step_id = here.step_id or ""
        record.task_id = here.subject.task_id or ""
        record.agent_id = here.subject.agent_id or ""
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the run's ids, and whatever `extra=` brought."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key in ("run_id", "step_id", "task_id", "agent_id"):
            if value := getattr(record, key, ""):
                line[key] = value
        line.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


TEXT_FORMAT = "%(asctime)s %(levelname)-7s %(run_id)s %(name)s: %(message)s"


def configure(
    level: int | str = logging.INFO, *, style: Literal["json", "text"] = "json", stream: TextIO | None = None
) -> logging.Handler:
    """Send Holdfast's log lines to `stream` (standard error). Calling it again replaces what it set up before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(TEXT_FORMAT))
    handler.set_name("holdfast")
    logger = logging.getLogger("holdfast")
    for old in [h for h in logger.handlers if h.get_name() == "holdfast"]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler
