"""The tree of errors is the one that is drawn."""

from __future__ import annotations

import inspect
import re

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError

CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, BaseException)]


def drawn() -> dict[str, str | None]:
    """Each class of the drawing with the one it hangs under."""
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^    ([│├└─ ]*)(\w+Error)\b", line):
            depth = len(match[1]) // 4
            del above[depth:]
            parents[match[2]] = above[-1] if above else None
            above.append(match[2])
    return parents


def test_the_drawing_is_the_tree_of_classes() -> None:
    real = {
        cls.__name__: next((base.__name__ for base in cls.__bases__ if issubclass(base, HoldfastError)), None)
        for cls in CLASSES
    }
    assert drawn() == real


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_says_what_it_means_and_hangs_under_the_root(cls: type[BaseException]) -> None:
    assert cls.__doc__
    assert "\n" not in cls.__doc__
    assert issubclass(cls, HoldfastError)
    assert cls.__name__.endswith("Error")
