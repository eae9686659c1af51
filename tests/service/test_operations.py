"""What can be asked of a job in which status: one table, and every cell of it is tried."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import AlreadyFinishedError, IllegalTransitionError
from holdfast.ports import JOB_TRANSITIONS, Job, JobStatus
from holdfast.service import OPERATIONS, UNBEGUN
from holdfast.service._operations import _ADVICE, Operation, decide

S = JobStatus
EDGES = {(edge.source, edge.target) for edge in JOB_TRANSITIONS}


def job(status: JobStatus, runs: int = 1) -> Job:
    return Job("j1", "test", status, 0, runs=runs)


@pytest.mark.parametrize(("operation", "status"), [(o, s) for o, row in OPERATIONS.items() for s in row])
def test_a_cell_of_the_table_is_an_edge_and_what_the_runner_hears_of_is_run_or_queued(
    operation: Operation, status: JobStatus
) -> None:
    how = decide(operation, job(status))
    assert how == OPERATIONS[operation][status]
    after = how.target or status
    assert how.target is None or (status, how.target) in EDGES
    assert not how.is_request or after in (S.QUEUED, S.RUNNING)


@pytest.mark.parametrize(("operation", "status"), [*itertools.product(OPERATIONS, S)])
def test_everything_else_is_refused_and_says_what_to_do(operation: Operation, status: JobStatus) -> None:
    if status in OPERATIONS[operation]:
        return
    refusal = AlreadyFinishedError if operation == "cancel" else IllegalTransitionError
    with pytest.raises(refusal, match=f"job j1 is {status}"):
        decide(operation, job(status))


@pytest.mark.parametrize(("operation", "status"), [(o, s) for o, row in UNBEGUN.items() for s in row])
def test_nobody_need_hear_of_a_job_that_never_ran(operation: Operation, status: JobStatus) -> None:
    how = decide(operation, job(status, runs=0))
    assert how == UNBEGUN[operation][status]
    assert not how.is_request
    assert (status, how.target) in EDGES


@pytest.mark.parametrize(("operation", "status"), [("rerun", S.QUEUED), ("rerun", S.FAILED), ("answer", S.QUEUED)])
def test_a_job_that_never_ran_has_nothing_to_run_again_or_to_answer(operation: Operation, status: JobStatus) -> None:
    with pytest.raises(IllegalTransitionError, match="has not run yet"):
        decide(operation, job(status, runs=0))


def test_a_job_that_was_never_approved_is_cancelled_and_paused_when_queued() -> None:
    assert decide("cancel", job(S.AWAITING_APPROVAL, runs=0)).target is S.CANCELLED
    assert decide("pause", job(S.QUEUED, runs=0)).target is S.PAUSED


def test_every_operation_has_advice() -> None:
    assert set(_ADVICE) == set(OPERATIONS)
