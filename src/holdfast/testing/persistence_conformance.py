"""What every `FlowPersistence` must do. Subclass the suite in your tests and say how to make yours.

class TestMine(FlowPersistenceConformance):
    def make_persistence(self) -> FlowPersistence:
        return MyPersistence(...)
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from holdfast.errors import ClosedError
from holdfast.ports import FlowPersistence

__all__ = ["FlowPersistenceConformance"]

EVERYTHING: dict[str, Any] = {
    "id": "one",
    "numbers": [0, -1, 2**80, 1.5, float("inf"), True, None],
    "texts": ["", "größer", "鯨", "\x00", "\ud800", "'; DROP TABLE state; --"],
    "bytes": b"\x00\xff",
    "sets": [{1, 2}, frozenset({"a"}), set()],
    "tuples": [(1, (2,)), ()],
    "keys": {1: "int", "1": "text", (1, 2): "tuple", None: "none"},
    "tagged": {"$set": [1]},
    "times": [datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), timedelta(days=-1, microseconds=1)],
    "exact": [Decimal("1.10"), UUID(int=7)],
    "deep": {"a": [{"b": [{"c": {}}]}]},
}


class FlowPersistenceConformance(ABC):
    """Every promise of `holdfast.ports.FlowPersistence`. Fill `make_persistence`; and `make_twin` if storage can be shared."""

    @abstractmethod
    def make_persistence(self) -> FlowPersistence:
        """A backend on storage that is new and empty."""

    def make_twin(self, persistence: FlowPersistence) -> FlowPersistence | None:
        """Another object on the same storage, as another process would have; None if it cannot be shared."""
        return None

    @contextmanager
    def opened(self) -> Iterator[FlowPersistence]:
        """A new backend, closed afterwards."""
        persistence = self.make_persistence()
        try:
            yield persistence
        finally:
            persistence.close()

    @contextmanager
    def opened_twice(self) -> Iterator[tuple[FlowPersistence, FlowPersistence]]:
        """Two objects on one storage; where it cannot be shared, the same one twice."""
        with self.opened() as persistence:
            twin = self.make_twin(persistence)
            try:
                yield persistence, twin or persistence
            finally:
                if twin is not None:
                    twin.close()

    def test_it_is_one(self) -> None:
        with self.opened() as persistence:
            assert isinstance(persistence, FlowPersistence)

    def test_an_id_that_was_never_saved_has_no_state(self) -> None:
        with self.opened() as persistence:
            assert persistence.load_state("nobody") is None
            persistence.save_state("somebody", "method", {"id": "somebody"})
            assert persistence.load_state("nobody") is None
            assert persistence.load_state("SOMEBODY") is None
            assert persistence.load_state("") is None

    def test_a_state_comes_back_exactly(self) -> None:
        with self.opened_twice() as (one, other):
            one.save_state("one", "method", EVERYTHING)
            assert repr(other.load_state("one")) == repr(EVERYTHING)

    @pytest.mark.parametrize("state_id", ["", "a/b", "../..", "größe 鯨", "x" * 5000, "%s", "'", "a\nb"])
    def test_any_text_is_an_id(self, state_id: str) -> None:
        with self.opened() as persistence:
            persistence.save_state(state_id, "method", {"id": state_id, "n": 1})
            assert persistence.load_state(state_id) == {"id": state_id, "n": 1}

    def test_the_state_saved_last_is_the_one_loaded_whatever_method_saved_it(self) -> None:
        with self.opened_twice() as (one, other):
            for n in range(25):
                (one, other)[n % 2].save_state("one", f"method{n % 3}", {"id": "one", "n": n})
                one.save_state("two", "method", {"id": "two", "n": -n})
            assert one.load_state("one") == other.load_state("one") == {"id": "one", "n": 24}
            assert other.load_state("two") == {"id": "two", "n": -24}

    def test_a_later_state_takes_the_place_of_the_earlier_as_a_whole(self) -> None:
        with self.opened() as persistence:
            persistence.save_state("one", "method", {"id": "one", "gone": 1, "inner": {"gone": 1}})
            persistence.save_state("one", "method", {"id": "one", "inner": {}})
            assert persistence.load_state("one") == {"id": "one", "inner": {}}

    def test_nobody_can_change_in_place_what_was_saved(self) -> None:
        with self.opened() as persistence:
            mine = {"id": "one", "list": [1]}
            persistence.save_state("one", "method", mine)
            mine["list"] = [2]
            loaded = persistence.load_state("one")
            assert loaded is not None
            loaded["list"].append(3)
            assert persistence.load_state("one") == {"id": "one", "list": [1]}

    def test_a_large_state_is_kept(self) -> None:
        with self.opened() as persistence:
            persistence.save_state("one", "method", {"id": "one", "text": "x" * 3_000_000})
            assert len((persistence.load_state("one") or {})["text"]) == 3_000_000

    def test_threads_may_save_and_load_at_once(self) -> None:
        together = threading.Barrier(8, timeout=30)

        def work(persistence: FlowPersistence, name: str) -> list[Any]:
            together.wait()
            for n in range(15):
                persistence.save_state(name, "method", {"id": name, "n": n})
                persistence.save_state("shared", "method", {"id": "shared", "by": name, "again": name})
            return [persistence.load_state(name), persistence.load_state("shared")]

        with self.opened_twice() as (one, other), ThreadPoolExecutor(8) as threads:
            work_of = [threads.submit(work, (one, other)[index % 2], f"thread{index}") for index in range(8)]
            for index, done in enumerate(work_of):
                own, shared = done.result()
                assert own == {"id": f"thread{index}", "n": 14}
                assert shared["by"] == shared["again"]

    def test_closed_it_says_so_and_twice_is_fine(self) -> None:
        persistence = self.make_persistence()
        persistence.save_state("one", "method", {"id": "one"})
        persistence.close()
        persistence.close()
        with pytest.raises(ClosedError):
            persistence.save_state("one", "method", {"id": "one"})
        with pytest.raises(ClosedError):
            persistence.load_state("one")
