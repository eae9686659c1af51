"""The values of a flow's variables: given, asked for, set once, from the environment, or the default."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.errors import FlowFileError, FlowInputError, UsageError
from holdfast.flowfiles._fields import coerce
from holdfast.flowfiles._find import ENTRY, SUFFIX, shown_path
from holdfast.flowfiles._findings import Report
from holdfast.flowfiles._load import read_bounded
from holdfast.flowfiles._model import FlowFile
from holdfast.flowfiles._nearest import did_you_mean
from holdfast.flowfiles._nodes import Mapping as MappingNode
from holdfast.flowfiles._nodes import plain, read_nodes
from holdfast.flowfiles._parts import Position, Variable

PREFIXES = ("HOLDFAST_VAR_", "STEPWISE_VAR_")
"""Of the environment variables that hold values; the second is an alias."""


class Resolved(Struct, frozen=True):
    """What a job starts with. Holds no secret, so it can be stored."""

    values: dict[str, Any]
    """by name, coerced; optional variables without a value are null"""
    secrets: tuple[str, ...] = ()
    """the sensitive variables: whoever runs the job reads them with `read_secrets`"""


def resolve_variables(
    flow: FlowFile,
    given: Mapping[str, Any] | None = None,
    *,
    asked: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Resolved:
    """The values to run a flow with: `given` (`--input`), then `asked` (a dialog), config.local.yaml, the environment, defaults.

    Raises FlowInputError for a name the flow does not have, a value that does not fit, a secret that would have to be stored, and a
    missing value, with the exact flag to add. Raises FlowFileError when config.local.yaml cannot be read.
    """
    given, asked = given or {}, asked or {}
    _check_known(flow, (*given, *asked))
    local, environ = read_local_config(flow), os.environ if environ is None else environ
    values, missing = {}, []
    for one in flow.variables:
        if one.sensitive:
            continue
        found = [place[one.name] for place in (given, asked, local) if one.name in place]
        found += [value for prefix in PREFIXES if (value := environ.get(prefix + one.name.upper())) is not None]
        if not found and one.default is UNSET and one.required:
            missing.append(one)
        values[one.name] = _fitting(one, found[0]) if found else None if one.default is UNSET else one.default
    _complain_of(flow, missing)
    return Resolved(values, tuple(one.name for one in flow.variables if one.sensitive))


def read_secrets(flow: FlowFile, environ: Mapping[str, str] | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The sensitive values that this process's environment holds, and the names of those that are needed and missing.

    Never store the first. Raises FlowInputError for one that does not fit its variable, without showing it.
    """
    environ = os.environ if environ is None else environ
    found, missing = {}, []
    for one in flow.variables:
        if not one.sensitive:
            continue
        value = next((environ[known] for known in secret_variables(one.name) if known in environ), None)
        if value is not None:
            found[one.name] = fit_secret(one, value)
        elif one.required:
            missing.append(one.name)
    return found, tuple(missing)


def secret_variable(name: str) -> str:
    """The environment variable that a sensitive variable is read from."""
    return secret_variables(name)[0]


def secret_variables(name: str) -> tuple[str, ...]:
    """That one and its aliases, the first that is set counts."""
    return tuple(prefix + name.upper() for prefix in PREFIXES)


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts, as the command line has them; `name=@file` takes a file's text. Raises UsageError for anything else."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r:.80} is no input; write name=value, or name=@file")
        found[name.strip()] = _file_text(value[1:]) if value.startswith("@") else value
    return found


def _file_text(name: str) -> str:
    report = Report()
    data = read_bounded(Path(name), Position(name), report)
    try:
        report.raise_errors()
        return (data or b"").decode()
    except (FlowFileError, UnicodeDecodeError) as error:
        raise UsageError(f"the input's file cannot be used: {error}") from error


def read_local_config(flow: FlowFile) -> dict[str, Any]:
    """The settings in config.local.yaml beside the flow (NAME.config.local.yaml for a single file); empty when there is none.

    Raises FlowFileError, with places, for what is no setting of the flow or does not fit it.
    """
    path = local_config_path(flow)
    if not path.is_file():
        return {}
    report, shown = Report(), shown_path(path)
    data = read_bounded(path, Position(shown), report)
    node = read_nodes(data, shown, report) if data and data.strip() else None
    settings = {one.name: one for one in flow.config}
    found = {}
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        _check_setting(settings.get(key.text), key.text, key.at, plain(value), settings, report)
        found[key.text] = plain(value)
    if node is not None and not isinstance(node, MappingNode):
        report.error("wrong-value", node.at, "this must be a mapping of settings to values")
    report.raise_errors()
    return found


def write_local_config(flow: FlowFile, given: Mapping[str, Any], forgotten: Iterable[str] = ()) -> Path:
    """Keep settings beside the flow, and forget others; what is kept otherwise stays. Returns the file.

    Raises FlowInputError for what is no setting, does not fit or is sensitive; FlowFileError if the file cannot be read or written.
    """
    settings, kept = {one.name: one for one in flow.config}, read_local_config(flow)
    forgotten = tuple(forgotten)
    for name in (*given, *forgotten):
        if name not in settings:
            hint = did_you_mean(name, settings) or f"; it has {', '.join(settings) or 'none'}"
            raise FlowInputError(f"the flow {flow.name} has no setting {name!r:.60}{hint}")
    _check_known(flow, given)
    kept |= {name: _fitting(settings[name], value) for name, value in given.items()}
    kept = {name: value for name, value in kept.items() if name not in forgotten}
    path = local_config_path(flow)
    lines = [f"{name}: {msgspec.json.encode(value).decode()}\n" for name, value in kept.items()]  # JSON is YAML
    try:
        if lines:
            _write_whole(path, f"# settings of the flow {flow.name}; `holdfast config` writes this\n{''.join(lines)}")
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise FlowFileError(f"{shown_path(path)} cannot be written: {error.strerror or error}") from error
    return path


def _write_whole(path: Path, text: str) -> None:
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        written.write_text(text, encoding="utf-8")
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def local_config_path(flow: FlowFile) -> Path:
    """Where a flow's settings are kept."""
    file = Path(flow.at.file).name
    name = (
        "config.local.yaml" if file == ENTRY else f"{file.removesuffix(SUFFIX).removesuffix('.yaml')}.config.local.yaml"
    )
    return Path(flow.directory) / name


def _check_setting(
    variable: Variable | None, name: str, at: Position, value: Any, settings: Mapping[str, Variable], report: Report
) -> None:
    if variable is None:
        fix = did_you_mean(name, settings).removeprefix("; ") or "remove it"
        report.error("unknown-key", at, f"the flow has no setting {name!r:.60}", fix=fix)
    elif variable.sensitive:
        fix = f"remove it, and set {secret_variable(name)} where the job runs"
        report.error("stored-secret", at, f"{name} is sensitive and must not be kept in a file", fix=fix)
    else:
        try:
            coerce(variable, value)
        except ValueError as error:
            report.error("wrong-value", at, str(error))


def _check_known(flow: FlowFile, names: Iterable[str]) -> None:
    variables = {one.name: one for one in flow.variables}
    for name in names:
        if name not in variables:
            hint = did_you_mean(name, variables) or f"; it has {', '.join(variables) or 'none'}"
            raise FlowInputError(f"the flow {flow.name} has no input {name!r:.60}{hint}")
        if variables[name].sensitive:
            raise FlowInputError(
                f"{name} is sensitive, and an input is stored with the job; set {secret_variable(name)} where the job runs instead"
            )


def _fitting(variable: Variable, value: Any) -> Any:
    if variable.type == "any" and isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    try:
        return coerce(variable, value)
    except ValueError as error:
        raise FlowInputError(f"the input {variable.name} does not fit: {error}") from error


def fit_secret(variable: Variable, value: str) -> Any:
    """A sensitive value as its variable's type. Raises FlowInputError, without showing it, if it is of another."""
    try:
        return coerce(variable, value)
    except ValueError:
        raise FlowInputError(f"{secret_variable(variable.name)} does not fit the type {variable.type}") from None


def _complain_of(flow: FlowFile, missing: list[Variable]) -> None:
    if missing:
        flags = " ".join(f"--input {one.name}={_sample(one)}" for one in missing)
        names = ", ".join(one.name for one in missing)
        said = f"{'inputs are' if len(missing) > 1 else 'an input is'} missing: {names}; add {flags}"
        settings = " ".join(f"--set {one.name}={_sample(one)}" for one in missing if one in flow.config)
        more = f", or once for all jobs: holdfast config {flow.name} {settings}" if settings else ""
        raise FlowInputError(said + more)


def _sample(variable: Variable) -> str:
    if variable.example:
        return shlex.quote(variable.example)
    if variable.options:
        return "|".join(map(str, variable.options))
    return {"number": "NUMBER", "bool": "true|false"}.get(variable.type, "TEXT")
