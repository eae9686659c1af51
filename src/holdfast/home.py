"""The project's home: the folder `.holdfast/`, where a project keeps its store.

It is looked for like `.git`: in the working directory, then in each folder above it. `HOLDFAST_HOME`, when set, names it
outright.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import ConfigurationError

FOLDER = ".holdfast"
VARIABLE = "HOLDFAST_HOME"


def find_home(start: str | os.PathLike[str] | None = None) -> Path | None:
    """The home of the project that `start`, or else the working directory, lies in; None if there is none.

    What HOLDFAST_HOME names is returned even if it does not exist yet: it will be made there.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser().absolute()
    here = Path(start or ".").absolute()
    return next((place / FOLDER for place in (here, *here.parents) if (place / FOLDER).is_dir()), None)


def make_home(start: str | os.PathLike[str] | None = None) -> Path:
    """Make the home in `start`, or else in the working directory; one that is there is left as it is.

    Only its owner can look inside, and git ignores it. Raises ConfigurationError if it cannot be made.
    """
    named = os.environ.get(VARIABLE)
    home = Path(named).expanduser().absolute() if named else Path(start or ".").absolute() / FOLDER
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{home} cannot be made: {error.strerror or error}; see to its permissions, or name another in {VARIABLE}"
        ) from error
    return home


def store_path(home: Path) -> Path:
    """Where a project keeps its journals and checkpoints."""
    return home / "holdfast.db"
