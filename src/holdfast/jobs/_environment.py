"""The environment of a step's process: its inputs as data, never as text of a command."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import JobStepError
from holdfast.jobs._calls import Call

VALUE_BYTES = 64 * 1024
"""A larger value is only in the file."""
ALL_BYTES = 512 * 1024
"""Values past this, together, are only in the file."""
ALIAS_BYTES = 128 * 1024
"""Values past this, together, are not under the names that existing flows read: the system bounds an environment."""
OWN = "HOLDFAST_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REFUSED = frozenset(
    [
        "PATH",
        "HOME",
        "SHELL",
        "IFS",
        "ENV",
        "BASH_ENV",
        "CDPATH",
        "PS4",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "BASHOPTS",
        "GLOBIGNORE",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PYTHONINSPECT",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "NODE_OPTIONS",
        "NODE_PATH",
        "JAVA_TOOL_OPTIONS",
        "GCONV_PATH",
        "LOCPATH",
        "TZDIR",
        "HOSTALIASES",
    ]
)
_REFUSED_BEGINNINGS = ("LD_", "DYLD_", "BASH_FUNC_", "HOLDFAST_", "STEPWISE_", "JOB_ENGINE_", "GIT_", "MALLOC_")


def environment_of(call: Call, inputs_file: Path) -> dict[str, str]:
    """All of a step's environment. Raises JobStepError for an input whose name would change the process itself."""
    env = dict(call.scope.shared.environment)
    for name in call.inputs:
        env.pop(name, None)  # what is absent is not the worker's own either
    total = 0
    for name, value in call.inputs.items():
        _check_name(name)
        text = _text(value)
        if text is None or "\0" in text or len(encoded := text.encode("utf-8", "surrogatepass")) > VALUE_BYTES:
            continue
        total += len(encoded)
        if total > ALL_BYTES:
            continue
        aliases = _aliases(f"INPUT_{name.upper()}", text)
        env |= {name: text, **(aliases if total <= ALIAS_BYTES else {OWN + f"INPUT_{name.upper()}": text})}
    env |= {
        name: value for key, said in _about(call, inputs_file).items() for name, value in _aliases(key, said).items()
    }
    return env


def write_inputs(call: Call, path: Path) -> None:
    """All inputs as one JSON object, in a file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(call.inputs))


def _check_name(name: str) -> None:
    upper = name.upper()
    if not _NAME.match(name) or upper in _REFUSED or upper.startswith(_REFUSED_BEGINNINGS):
        raise JobStepError(
            f"an input of a script cannot be called {name}: that would change the process itself; give it another name",
            category="configuration",
        )


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def _about(call: Call, inputs_file: Path) -> dict[str, str]:
    scope = call.scope
    return {
        "JOB_ID": scope.shared.job_id,
        "STEP": call.step.name,
        "ATTEMPT": str(call.attempt),
        "FLOW_DIR": scope.flow.directory,
        "PROJECT_DIR": scope.shared.project,
        "WORKSPACE": str(scope.shared.workspace),
        "INPUTS_FILE": str(inputs_file),
        "IDEMPOTENCY_KEY": call.idempotency_key,
    }


def _aliases(key: str, value: str) -> dict[str, str]:
    """A variable under our name and under those that existing flows read."""
    aliases = {f"{OWN}{key}": value, f"STEPWISE_{key}": value, f"JOB_ENGINE_{key}": value}
    if key == "INPUTS_FILE":
        aliases["JOB_ENGINE_INPUTS"] = value
    return aliases
