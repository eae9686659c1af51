"""The wheel installs and works away from the source tree, the lock is portable, and importing the package is cheap."""

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

# Modules that `import holdfast` must not load.
HEAVY = ("asyncio", "httpx2", "mcp", "pydantic", "pydantic_ai", "rich", "typer")


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """Run a command away from the tree, with nothing that would point Python back at it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment = kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT], cwd=out)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_typed_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name == f"holdfast-{VERSION}-py3-none-any.whl"
    assert "holdfast/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"holdfast", f"holdfast-{VERSION}.dist-info"}
    assert not [name for name in names if "/tests/" in name or Path(name).name.startswith("test_")]


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    # Our own pip installs into it, which saves the seconds of unpacking another.
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-compile",
        "--no-deps",
    ]
    run([*pip, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt"], cwd=tmp_path)
    run([*pip, "--no-index", wheel], cwd=tmp_path)

    assert VERSION in run([environment / "bin" / "holdfast", "--version"], cwd=tmp_path)
    report = "import holdfast; print(holdfast.__version__); print(holdfast.__file__)"
    version, file = run([python, "-c", report], cwd=tmp_path).splitlines()
    assert version == VERSION
    assert Path(file).is_relative_to(environment)
    every_public_name = "import holdfast\nfor name in holdfast.__all__: getattr(holdfast, name)"
    run([python, "-W", "error", "-c", every_public_name], cwd=tmp_path)


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_a_lock_names_no_address_path_or_index(path: Path) -> None:
    pinned = re.compile(r"[a-z0-9][a-z0-9.-]*==[0-9][\w.]*( ; [^/@]+)? \\")
    hashed = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
    odd = [line for line in path.read_text().splitlines() if not (pinned.fullmatch(line) or hashed.fullmatch(line))]
    assert odd == []


def test_the_runtime_lock_is_part_of_the_development_lock() -> None:
    pins = {path.name: set(re.findall(r"^\S+==\S+", path.read_text(), re.MULTILINE)) for path in REQUIREMENTS}
    assert pins["runtime.txt"]
    assert pins["runtime.txt"] <= pins["dev.txt"]


def test_importing_holdfast_loads_nothing_heavy(tmp_path: Path) -> None:
    report = "import sys, holdfast; print(*sys.modules, sep='\\n')"
    loaded = {name.split(".")[0] for name in run([sys.executable, "-c", report], cwd=tmp_path).split()}
    assert loaded & set(HEAVY) == set()
