from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ModelAuthError, ModelRateLimitedError, ModelUnavailableError
from holdfast.models import NO_RETRIES, Retries

BROKEN = ModelUnavailableError("broken")


def test_only_transient_errors_are_tried_again() -> None:
    assert Retries().wait_after(1, ModelAuthError("no"), Random(1)) is None
    assert Retries().wait_after(1, BROKEN, Random(1)) is not None
    assert NO_RETRIES.wait_after(1, BROKEN, Random(1)) is None


@given(st.integers(1, 30), st.integers())
def test_the_wait_doubles_up_to_its_longest_with_jitter_below(failures: int, seed: int) -> None:
    retries = Retries(attempts=100, first_wait=1.0, longest_wait=30.0)
    full = min(2.0 ** (failures - 1), 30.0)
    wait = retries.wait_after(failures, BROKEN, Random(seed))
    assert wait is not None
    assert full / 2 <= wait <= full


def test_jitter_comes_from_the_source_that_is_passed_in() -> None:
    assert Retries().wait_after(3, BROKEN, Random(7)) == Retries().wait_after(3, BROKEN, Random(7))
    assert Retries().wait_after(3, BROKEN, Random(7)) != Retries().wait_after(3, BROKEN, Random(8))


def test_the_provider_may_ask_for_a_longer_wait_but_not_for_any() -> None:
    assert Retries().wait_after(1, ModelRateLimitedError("x", retry_after=60.0), Random(1)) == 60.0
    assert Retries().wait_after(1, ModelRateLimitedError("x", retry_after=121.0), Random(1)) is None
