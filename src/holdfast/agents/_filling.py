"""Inputs of a kickoff, put into texts where braces name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def fill(text: str, inputs: Mapping[str, Any]) -> str:
    """The text with `{name}` replaced by that input; what no input is called stays as it is."""
    return _NAME.sub(lambda found: str(inputs.get(found.group(1), found.group(0))), text)
