"""The HTTP server: REST, streams, and who may use them. Imported on first use: it needs the extra `server`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.server._settings import LOCAL_HOSTS, Settings
from holdfast.server._tokens import ROLES, Identity, Role, Token, Tokens

if TYPE_CHECKING:
    from holdfast.server._app import ENDPOINTS as ENDPOINTS
    from holdfast.server._app import App as App
    from holdfast.server._app import create_app as create_app
    from holdfast.server._backend import Queue as Queue
    from holdfast.server._openapi import describe_api as describe_api
    from holdfast.server._serving import Binding as Binding
    from holdfast.server._serving import Serving as Serving
    from holdfast.server._serving import stopping_on_signals as stopping_on_signals
    from holdfast.server._traces import trace_runs as trace_runs

_WHERE = {
    "App": "_app",
    "Binding": "_serving",
    "ENDPOINTS": "_app",
    "Queue": "_backend",
    "Serving": "_serving",
    "create_app": "_app",
    "describe_api": "_openapi",
    "stopping_on_signals": "_serving",
    "trace_runs": "_traces",
}

__all__ = [
    "ENDPOINTS",
    "LOCAL_HOSTS",
    "ROLES",
    "App",
    "Binding",
    "Identity",
    "Queue",
    "Role",
    "Serving",
    "Settings",
    "Token",
    "Tokens",
    "create_app",
    "describe_api",
    "stopping_on_signals",
    "trace_runs",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'holdfast.server' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"holdfast.server.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
