"""What goes wrong, as answers: each has a status, a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.responses import Response

from holdfast import errors
from holdfast.flowfiles import Finding


class FindingView(Struct, frozen=True):
    """Something that is to be said about a flow file."""

    severity: str
    code: str
    file: str
    line: int
    column: int
    message: str
    fix: str


class Problem(Struct, frozen=True):
    """Why a call was refused."""

    error: str
    """the same for the same kind of mistake; for programs"""
    message: str
    """what happened and what to do"""
    findings: list[FindingView] | None = None
    """of a flow file: what is wrong, and where"""


class Refused(Exception):
    """A call is not carried out: the server's own reason."""

    def __init__(self, status: int, error: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.problem, self.headers = status, Problem(error, message), dict(headers or {})


_STATUSES: tuple[tuple[type[BaseException], int, str], ...] = (
    (errors.UnknownJobError, 404, "unknown_job"),
    (errors.UnknownScheduleError, 404, "unknown_schedule"),
    (errors.FlowFileError, 422, "flow_file"),
    (errors.FlowInputError, 422, "flow_input"),
    (errors.GraphChangedError, 409, "graph_changed"),
    (errors.UsageError, 400, "usage"),
    (errors.TransitionError, 409, "transition"),
    (errors.NotStorableError, 400, "not_storable"),
    (errors.RunBusyError, 409, "run_busy"),
    (errors.SecretMissingError, 409, "secret_missing"),
    (errors.StoreUnavailableError, 503, "store_unavailable"),
    (errors.CorruptStoreError, 500, "corrupt_store"),
    (errors.StorageError, 409, "storage"),
    (errors.ConfigurationError, 409, "configuration"),
    (errors.ClosedError, 503, "closing"),
)
"""The first that fits counts."""


def answer_to(error: BaseException, project: Path | None) -> Response | None:
    """The answer to a call that raised this; None if nobody expected it."""
    if isinstance(error, Refused):
        return problem_response(error.status, error.problem, error.headers)
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            findings = [finding_view(one, project) for one in getattr(error, "findings", ())] or None
            return problem_response(status, Problem(code, _shown(str(error), project), findings))
    return None


def finding_view(one: Finding, project: Path | None) -> FindingView:
    file, message = _shown(one.at.file, project), _shown(one.message, project)
    return FindingView(one.severity, one.code, file, one.at.line, one.at.column, message, one.fix)


def _shown(text: str, project: Path | None) -> str:
    """Files of the project by their place in it: where on the machine that is, is nobody's business."""
    return text if project is None else text.replace(f"{project}/", "")


def problem_response(status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(problem), status, dict(headers or {}), "application/json")
