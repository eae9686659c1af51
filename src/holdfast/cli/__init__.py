"""The `holdfast` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Ctrl-C while it is still being imported ends it as it does later on: without a traceback."""
    try:
        from holdfast.cli._main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
