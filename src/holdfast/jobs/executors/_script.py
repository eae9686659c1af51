"""`run:`: a command, a shell script or a file of the flow."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import JobStepError
from holdfast.flowfiles import Script
from holdfast.jobs._calls import Call
from holdfast.jobs.executors._process import run_command, script_argv, why


async def run_script(call: Call) -> Any:
    """The JSON object that it printed, or its whole output as `stdout`. Raises JobStepError if it did not end well."""
    executor = call.executor
    assert isinstance(executor, Script)
    try:
        argv = script_argv(executor.text, executor.file, call.scope.flow.directory)
    except OSError as error:
        raise JobStepError(f"cannot use {executor.file}: {error.strerror}", category="configuration") from error
    ran = await run_command(call, argv)
    if ran.code != 0:
        raise JobStepError(why(ran), category="configuration" if ran.code == 127 else "failed")
    return printed(ran.stdout, call)


def printed(text: str, call: Call) -> dict[str, Any]:
    """What a command printed: a JSON object is the outputs, anything else is text."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            found = msgspec.json.decode(stripped)
        except (msgspec.DecodeError, RecursionError) as error:
            if call.step.outputs:
                raise JobStepError(
                    f"it printed something like an object that is no JSON: {error}", category="output"
                ) from error
        else:
            if isinstance(found, dict):
                return found
    return {"stdout": text.rstrip("\n")}
