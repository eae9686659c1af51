"""The class of a recorded flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.checkpoints import Restored, definition_of
from holdfast.errors import StorageError
from holdfast.flow._front import made_by_of

if TYPE_CHECKING:
    from holdfast.flow._flow import Flow

F = TypeVar("F", bound="Flow[Any]")


def class_of(kind: type[F], restored: Restored) -> type[F]:
    """The class to make: the one that was asked, or, asked of a base, the recorded subclass if the program has it."""
    made_by = definition_of(restored.info).made_by
    if made_by_of(kind) == made_by or kind.is_runnable():
        return kind
    found = kind.known_subclasses().get(made_by)
    if found is None:
        module, _, name = made_by.partition(":")
        first = "import the module that it is now in" if module == "__main__" else f"`import {module}` first"
        raise StorageError(
            f"run {restored.info.root_run_id} was made by {name}, which this program has not imported: "
            f"{first}, or call {name}.from_checkpoint()"
        )
    return found
