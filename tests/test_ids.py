from __future__ import annotations

import uuid

from tests.events.samples import in_forked_child, together

from holdfast.ids import new_id


def test_an_id_is_a_uuid7_in_text() -> None:
    made = new_id()
    assert str(uuid.UUID(made)) == made
    assert uuid.UUID(made).version == 7


def test_later_ids_sort_after_earlier_ones() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_ids_of_several_threads_are_unique() -> None:
    made: list[list[str]] = [[] for _ in range(4)]
    together(*(lambda mine=mine: mine.extend(new_id() for _ in range(5_000)) for mine in made))
    assert len({one for mine in made for one in mine}) == 20_000


def test_ids_of_a_forked_child_are_not_those_of_its_parent() -> None:
    new_id()  # whatever the generator keeps is there before the fork
    child = in_forked_child(lambda: [new_id() for _ in range(500)])
    assert not set(child) & {new_id() for _ in range(500)}
    assert not {one[-12:] for one in child} & {one[-12:] for one in (new_id() for _ in range(500))}
