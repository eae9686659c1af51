"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name most like one that is not; None when none is."""
    choices = {one.lower().replace("-", "_"): one for one in valid}
    found = difflib.get_close_matches(name[:200].lower().replace("-", "_"), choices, n=1, cutoff=0.6)
    return choices[found[0]] if found else None


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing."""
    found = nearest(name, valid)
    return f"; did you mean {found}?" if found else ""
