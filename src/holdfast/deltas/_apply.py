"""Replaying deltas over a plain state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.deltas._delta import Add, Append, Delete, Delta, Discard, Operation, Set, Splice
from holdfast.deltas._paths import Path, is_index, locate
from holdfast.errors import StorageError


def apply(plain_state: dict[str, Any], delta: Delta) -> dict[str, Any]:
    """Return the state after `delta`, sharing what did not change; `plain_state` stays as it is.

    Raises StorageError when the delta does not fit the state: it was made for another.
    """
    return fold(plain_state, (delta,))


def fold(plain_state: dict[str, Any], deltas: Iterable[Delta]) -> dict[str, Any]:
    """Return the state after many deltas, as `apply` would one by one, but copying each container only once."""
    replay = _Replay()
    for delta in deltas:
        for operation in delta.operations:
            plain_state = replay.change(plain_state, operation)
    return plain_state


class _Replay:
    """Changes containers in place once it has made its own copy of them."""

    def __init__(self) -> None:
        # The containers too, not only their ids: the id of one that is dropped may come back.
        self._own: dict[int, Any] = {}

    def change(self, state: dict[str, Any], operation: Operation) -> dict[str, Any]:
        try:
            result: dict[str, Any] = self._change(state, operation, operation.path)
        except (LookupError, TypeError) as error:
            kind = type(operation).__name__
            raise StorageError(f"this delta does not fit this state: no {kind} at {locate(operation.path)}") from error
        return result

    def _change(self, node: Any, operation: Operation, rest: Path) -> Any:
        """The container `node` with the operation done `rest` below it."""
        if not rest:
            return self._amend(node, operation)
        key, *below = rest
        if not below and isinstance(operation, Set | Delete):
            return self._put(node, key, operation)
        _check_key(node, key)
        child = node[key]
        changed = self._change(child, operation, tuple(below))
        return node if changed is child else self._with(node, key, changed)

    def _put(self, node: Any, key: Any, operation: Set | Delete) -> Any:
        if isinstance(operation, Set) and isinstance(node, dict):
            return self._with(node, key, operation.value)
        _check_key(node, key)
        if isinstance(operation, Set):
            return self._with(node, key, operation.value)
        mine = self._mine(node)
        del mine[key]
        return mine

    def _amend(self, node: Any, operation: Operation) -> Any:
        """What a list, a text or a set becomes."""
        if isinstance(operation, Append) and isinstance(operation.values, str):
            return node + operation.values
        mine = self._mine(node)
        if isinstance(operation, Append) and isinstance(mine, list):
            mine.extend(operation.values)
        elif (
            isinstance(operation, Splice) and isinstance(mine, list) and operation.start + operation.count <= len(mine)
        ):
            mine[operation.start : operation.start + operation.count] = operation.values
        elif isinstance(operation, Add) and isinstance(mine, set):
            mine.update(operation.values)
        elif isinstance(operation, Discard) and isinstance(mine, set):
            mine.difference_update(operation.values)
        else:
            raise TypeError(type(mine).__name__)
        return mine

    def _with(self, node: Any, key: Any, value: Any) -> Any:
        if isinstance(node, tuple):
            return (*node[:key], value, *node[key + 1 :])
        mine = self._mine(node)
        mine[key] = value
        return mine

    def _mine(self, node: Any) -> Any:
        """`node` itself if it was made here, else a copy."""
        if id(node) in self._own:
            return node
        if not isinstance(node, dict | list | set):
            raise TypeError(type(node).__name__)
        mine = node.copy()
        self._own[id(mine)] = mine
        return mine


def _check_key(node: Any, key: Any) -> None:
    if not (key in node if isinstance(node, dict) else is_index(key, len(node))):
        raise LookupError(key)
