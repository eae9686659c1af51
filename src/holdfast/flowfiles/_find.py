"""Finding flows: a file, a directory with `FLOW.yaml`, a name, or `kit/flow`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.home import find_home

ENTRY, KIT_FILE, SUFFIX, FOLDER = "FLOW.yaml", "KIT.yaml", ".flow.yaml", "flows"


def find_flow(reference: str, start: Path) -> Path | None:
    """The file of a flow, looked for from a directory; None if there is none.

    A path is taken as it is. A name, or `kit/flow`, is looked for in `start`, then in the folder `flows` of the project.
    """
    if "\0" in reference or not reference.strip():
        return None
    path = Path(reference)
    if (found := _entry(start / path)) is not None:
        return found
    if path.is_absolute() or reference.startswith(".") or reference.endswith((".yaml", ".yml")):
        return None
    return next((found for place in _places(start) if (found := _entry(place / reference)) is not None), None)


def _entry(path: Path) -> Path | None:
    """The file that a path means: itself, the entry of a directory, or the one with our suffix."""
    candidates = [path, path / ENTRY]
    if path.name:
        candidates.append(path.with_name(path.name + SUFFIX))
    return next(filter(_is_file, candidates), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long a name, no permission, a zero byte
        return False


def _places(start: Path) -> Iterator[Path]:
    yield start
    yield start / FOLDER
    yield start.parent
    home = find_home(start)
    if home is not None:
        yield from (home.parent / FOLDER, home.parent, home / FOLDER)


def flow_names(start: Path) -> list[str]:
    """The names of the flows that can be found from a directory."""
    files = [file for place in _places(start) for file in (*place.glob(f"*{SUFFIX}"), *place.glob(f"*/{ENTRY}"))]
    return sorted({flow_name(file) for file in files if _is_file(file)})


def kit_of(file: Path) -> Path | None:
    """The `KIT.yaml` of the kit that a flow belongs to."""
    folder = file.parent.parent if file.name == ENTRY else file.parent
    kit = folder / KIT_FILE
    return kit if _is_file(kit) else None


def flows_of_kit(folder: Path) -> list[Path]:
    """The files of a kit's flows, by name; empty when the folder is no kit."""
    if not _is_file(folder / KIT_FILE):
        return []
    return sorted((*folder.glob(f"*/{ENTRY}"), *folder.glob(f"*{SUFFIX}")))


def flow_name(file: Path) -> str:
    """What a flow is called that does not say: by its directory, or by its file."""
    return file.parent.name if file.name == ENTRY else file.name.removesuffix(SUFFIX).removesuffix(".yaml")


def shown_path(path: Path) -> str:
    """A path as people read it: from the working directory, if it lies there."""
    try:
        relative = os.path.relpath(path)
    except ValueError:
        return str(path)
    return str(path) if relative.startswith("..") else relative
