"""The OpenAPI 3.1 description, made from the route table: what is described is what is served."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

import holdfast
from holdfast.server._endpoint import Endpoint, Nothing
from holdfast.server._problems import Problem

_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"{(\w+)}")
_REFUSALS = {
    "400": "What was sent does not fit.",
    "401": "No token, or a wrong one.",
    "403": "The token's role is too low, or a page of another origin calls.",
    "404": "There is no such thing.",
    "408": "The body did not arrive in time.",
    "409": "It cannot be done as things are.",
    "413": "The body is too large.",
    "415": "The body is not said to be JSON.",
    "421": "The server is not called so.",
    "422": "The flow file or its inputs cannot be used.",
    "429": "Too many calls.",
    "503": "Not now: the store is away, or the server is busy or stopping.",
}


def describe_api(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole description, as plain data."""
    types = [*_types(endpoints)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, by_type, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": holdfast.__version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "holdfast_token"},
            },
        },
    }


def _types(endpoints: Sequence[Endpoint]) -> Iterable[Any]:
    seen: dict[str, Any] = {_key(Problem): Problem}
    for endpoint in endpoints:
        for kind in (endpoint.query, endpoint.body, endpoint.answer):
            if kind is not None:
                seen.setdefault(_key(kind), kind)
    return seen.values()


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(endpoint: Endpoint, by_type: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": f"{endpoint.group}_{endpoint.handler.__name__}",
        "tags": [endpoint.group],
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, components)],
        "responses": _responses(endpoint, by_type),
        "security": [] if endpoint.role is None else [{"token": []}, {"cookie": []}],
    }
    if endpoint.role is not None:
        made["description"] = f"Needs the role {endpoint.role}."
        made["x-role"] = endpoint.role
    if endpoint.body is not None:
        content = {"application/json": {"schema": by_type[_key(endpoint.body)]}}
        made["requestBody"] = {"content": content, "required": _has_required(endpoint.body)}
    return made


def _has_required(kind: type[Any]) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATH_PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is Nothing:
        return []
    described = components[endpoint.query.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in described["properties"].items()
    ]


def _responses(endpoint: Endpoint, by_type: dict[str, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.answer is not None:
        good["content"] = {"application/json": {"schema": by_type[_key(endpoint.answer)]}}
    elif endpoint.status != 204:
        good["content"] = {media: {} for media in (endpoint.media, *endpoint.other_media)}
    problem = {"application/json": {"schema": by_type[_key(Problem)]}}
    refusals = {status: {"description": text, "content": problem} for status, text in _REFUSALS.items()}
    return {str(endpoint.status): good, **refusals}


# -- a page for people ---------------------------------------------------------------------------------------------

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color-scheme: light dark }
code, pre { font: 14px/1.4 ui-monospace, monospace } pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886 }
summary { cursor: pointer } details { border-bottom: 1px solid #8886; padding: .4rem 0 } .role { float: right; opacity: .7 }
"""


def style_sheet() -> str:
    return _STYLE.strip() + "\n"


def docs_page(endpoints: Sequence[Endpoint], description: dict[str, Any], base: str) -> str:
    """The description as one plain page: no script, nothing from elsewhere."""
    groups = dict.fromkeys(endpoint.group for endpoint in endpoints)
    parts = [
        f"<h2>{html.escape(group)}</h2>" + "".join(_shown(one, description) for one in endpoints if one.group == group)
        for group in groups
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Holdfast API</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="{html.escape(base)}/docs.css"><h1>Holdfast API</h1>'
        f'<p>Made from <a href="{html.escape(base)}/openapi.json">openapi.json</a>. Send a token with each call: '
        "<code>Authorization: Bearer TOKEN</code>.</p>" + "".join(parts) + "</html>"
    )


def _shown(endpoint: Endpoint, description: dict[str, Any]) -> str:
    operation = description["paths"][endpoint.path][endpoint.method.lower()]
    facts = {key: operation[key] for key in ("parameters", "requestBody") if operation.get(key)}
    facts["answers"] = operation["responses"][str(endpoint.status)].get("content", "nothing")
    text = msgspec.json.format(msgspec.json.encode(facts), indent=2).decode()
    return (
        f"<details><summary><code>{endpoint.method} {html.escape(endpoint.path)}</code> "
        f'{html.escape(endpoint.summary)}<span class="role">{endpoint.role or "everybody"}</span></summary>'
        f"<pre>{html.escape(text)}</pre></details>"
    )
