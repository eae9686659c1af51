"""Flow files: reading, checking and describing them. Nothing here runs a flow.

Names are imported on first use: whoever runs a flow that was loaded before needs the model, and no YAML.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.flowfiles._expressions import CompiledExpression as CompiledExpression
    from holdfast.flowfiles._expressions import compile_expression as compile_expression
    from holdfast.flowfiles._fields import coerce as coerce
    from holdfast.flowfiles._find import find_flow as find_flow
    from holdfast.flowfiles._find import flows_of_kit as flows_of_kit
    from holdfast.flowfiles._findings import Finding as Finding
    from holdfast.flowfiles._load import check_flow as check_flow
    from holdfast.flowfiles._load import load_flow as load_flow
    from holdfast.flowfiles._model import AgentCall as AgentCall
    from holdfast.flowfiles._model import Cache as Cache
    from holdfast.flowfiles._model import Executor as Executor
    from holdfast.flowfiles._model import ExitRule as ExitRule
    from holdfast.flowfiles._model import Extension as Extension
    from holdfast.flowfiles._model import External as External
    from holdfast.flowfiles._model import Fallback as Fallback
    from holdfast.flowfiles._model import FlowFile as FlowFile
    from holdfast.flowfiles._model import ForEach as ForEach
    from holdfast.flowfiles._model import Input as Input
    from holdfast.flowfiles._model import JobSource as JobSource
    from holdfast.flowfiles._model import Llm as Llm
    from holdfast.flowfiles._model import Permissions as Permissions
    from holdfast.flowfiles._model import Poll as Poll
    from holdfast.flowfiles._model import PythonCall as PythonCall
    from holdfast.flowfiles._model import ResourceRequest as ResourceRequest
    from holdfast.flowfiles._model import Retry as Retry
    from holdfast.flowfiles._model import Sandbox as Sandbox
    from holdfast.flowfiles._model import Script as Script
    from holdfast.flowfiles._model import Source as Source
    from holdfast.flowfiles._model import StepSource as StepSource
    from holdfast.flowfiles._model import StepSpec as StepSpec
    from holdfast.flowfiles._model import SubFlow as SubFlow
    from holdfast.flowfiles._model import When as When
    from holdfast.flowfiles._model import WhenExpression as WhenExpression
    from holdfast.flowfiles._model import WhenInput as WhenInput
    from holdfast.flowfiles._model import kind_of as kind_of
    from holdfast.flowfiles._order import may_follow as may_follow
    from holdfast.flowfiles._order import terminals as terminals
    from holdfast.flowfiles._order import waits_for as waits_for
    from holdfast.flowfiles._parts import NEVER_RETRIED as NEVER_RETRIED
    from holdfast.flowfiles._parts import Action as Action
    from holdfast.flowfiles._parts import ErrorCategory as ErrorCategory
    from holdfast.flowfiles._parts import Expression as Expression
    from holdfast.flowfiles._parts import Field as Field
    from holdfast.flowfiles._parts import FieldType as FieldType
    from holdfast.flowfiles._parts import Idempotency as Idempotency
    from holdfast.flowfiles._parts import Limits as Limits
    from holdfast.flowfiles._parts import OutputField as OutputField
    from holdfast.flowfiles._parts import Position as Position
    from holdfast.flowfiles._parts import Template as Template
    from holdfast.flowfiles._parts import Tool as Tool
    from holdfast.flowfiles._parts import Variable as Variable
    from holdfast.flowfiles._picture import to_graph as to_graph
    from holdfast.flowfiles._plugins import ExecutorPlugin as ExecutorPlugin
    from holdfast.flowfiles._plugins import Option as Option
    from holdfast.flowfiles._plugins import find_plugin as find_plugin
    from holdfast.flowfiles._plugins import plugin_names as plugin_names
    from holdfast.flowfiles._schema import flow_schema as flow_schema
    from holdfast.flowfiles._schema import installed_schema as installed_schema
    from holdfast.flowfiles._templates import CompiledTemplate as CompiledTemplate
    from holdfast.flowfiles._templates import compile_template as compile_template
    from holdfast.flowfiles._templates import read_path as read_path
    from holdfast.flowfiles._tools import check_tools as check_tools
    from holdfast.flowfiles._variables import Resolved as Resolved
    from holdfast.flowfiles._variables import fit_secret as fit_secret
    from holdfast.flowfiles._variables import local_config_path as local_config_path
    from holdfast.flowfiles._variables import parse_assignments as parse_assignments
    from holdfast.flowfiles._variables import read_local_config as read_local_config
    from holdfast.flowfiles._variables import read_secrets as read_secrets
    from holdfast.flowfiles._variables import resolve_variables as resolve_variables
    from holdfast.flowfiles._variables import secret_variable as secret_variable
    from holdfast.flowfiles._variables import secret_variables as secret_variables
    from holdfast.flowfiles._variables import write_local_config as write_local_config

_WHERE = {
    "NEVER_RETRIED": "_parts",
    "Action": "_parts",
    "AgentCall": "_model",
    "Cache": "_model",
    "CompiledExpression": "_expressions",
    "CompiledTemplate": "_templates",
    "ErrorCategory": "_parts",
    "Executor": "_model",
    "ExecutorPlugin": "_plugins",
    "ExitRule": "_model",
    "Expression": "_parts",
    "Extension": "_model",
    "External": "_model",
    "Fallback": "_model",
    "Field": "_parts",
    "FieldType": "_parts",
    "Finding": "_findings",
    "FlowFile": "_model",
    "ForEach": "_model",
    "Idempotency": "_parts",
    "Input": "_model",
    "JobSource": "_model",
    "Limits": "_parts",
    "Llm": "_model",
    "Option": "_plugins",
    "OutputField": "_parts",
    "Permissions": "_model",
    "Poll": "_model",
    "Position": "_parts",
    "PythonCall": "_model",
    "Resolved": "_variables",
    "ResourceRequest": "_model",
    "Retry": "_model",
    "Sandbox": "_model",
    "Script": "_model",
    "Source": "_model",
    "StepSource": "_model",
    "StepSpec": "_model",
    "SubFlow": "_model",
    "Template": "_parts",
    "Tool": "_parts",
    "Variable": "_parts",
    "When": "_model",
    "WhenExpression": "_model",
    "WhenInput": "_model",
    "check_flow": "_load",
    "check_tools": "_tools",
    "coerce": "_fields",
    "compile_expression": "_expressions",
    "compile_template": "_templates",
    "find_flow": "_find",
    "find_plugin": "_plugins",
    "fit_secret": "_variables",
    "flow_schema": "_schema",
    "flows_of_kit": "_find",
    "installed_schema": "_schema",
    "kind_of": "_model",
    "load_flow": "_load",
    "local_config_path": "_variables",
    "may_follow": "_order",
    "parse_assignments": "_variables",
    "plugin_names": "_plugins",
    "read_local_config": "_variables",
    "read_path": "_templates",
    "read_secrets": "_variables",
    "resolve_variables": "_variables",
    "secret_variable": "_variables",
    "secret_variables": "_variables",
    "terminals": "_order",
    "to_graph": "_picture",
    "waits_for": "_order",
    "write_local_config": "_variables",
}

__all__ = sorted(_WHERE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
