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
_REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')
_PATH_PARAMETER = re.compile(r"{(\w+)}")
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "How to say who you are.", "schema": {"type": "string"}}}
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
    "429": "Too many calls, or too many wrong tokens.",
    "500": "Something broke; the server's log says what.",
    "503": "Not now: the store is away, or the server is busy or stopping.",
}
_OF_BODIES = ("408", "415")
_OF_WORK = ("404", "409", "422")
"""Not of calls that everybody may make: there is nothing that they could not find."""
_HEADERS = {"401": _CHALLENGE, "429": _RETRY, "503": _RETRY}
_LAST_ID = {
    "name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "string"},
    "description": "The id of the last frame that was seen: what came since is told, or one `resync` if that is not kept.",
}  # fmt: skip
_STREAM = "Server-sent events: what each one is. Lines that begin with a colon are signs of life."


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
            "responses": _described_refusals(by_type[_key(Problem)]),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "holdfast_token"},
            },
        },
    }


def _types(endpoints: Sequence[Endpoint]) -> Iterable[Any]:
    seen: dict[str, Any] = {_key(Problem): Problem}
    for endpoint in endpoints:
        for kind in (endpoint.query, endpoint.body, endpoint.answer, *endpoint.frames.values()):
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
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint, components),
            *([_LAST_ID] if endpoint.is_stream else []),
        ],
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
    if endpoint.status != 204:
        good["content"] = _content(endpoint, by_type)
    refusals = {
        status: {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS if _may_refuse(endpoint, status)
    }
    return {str(endpoint.status): good, **refusals}


def _described_refusals(problem: dict[str, Any]) -> dict[str, Any]:
    """Every refusal, once: each call names those that it may give."""
    content = {"application/json": {"schema": problem}}
    return {
        status: {"description": text, "content": content, "headers": _HEADERS.get(status, {})}
        for status, text in _REFUSALS.items()
    }


def _may_refuse(endpoint: Endpoint, status: str) -> bool:
    if status in _OF_BODIES:
        return endpoint.body is not None
    if status in _OF_WORK:
        return endpoint.role is not None
    return status != "401" or endpoint.role is not None or endpoint.body is not None  # a session is begun with a token


def _content(endpoint: Endpoint, by_type: dict[str, Any]) -> dict[str, Any]:
    text: dict[str, Any] = {"schema": {"type": "string"}}
    if endpoint.is_stream:
        frames = [_frame(event, by_type[_key(kind)]) for event, kind in endpoint.frames.items()]
        return {endpoint.media: {"schema": {"description": _STREAM, "oneOf": frames}}}
    first = text if endpoint.answer is None else {"schema": by_type[_key(endpoint.answer)]}
    return {endpoint.media: first, **dict.fromkeys(endpoint.other_media, text)}


def _frame(event: str, schema: dict[str, Any]) -> dict[str, Any]:
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    properties = {"event": {"const": event}, "id": {"type": "string"}, "data": data}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


# -- a page for people ---------------------------------------------------------------------------------------------

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color-scheme: light dark }
code, pre { font: 14px/1.4 ui-monospace, monospace } pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886 }
table { border-collapse: collapse } td { padding: .2rem 1rem .2rem 0; vertical-align: top }
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
        '<link rel="icon" href="data:,">'  # else browsers ask for one that is not there
        f'<link rel="stylesheet" href="{html.escape(base)}/docs.css"><h1>Holdfast API</h1>'
        f'<p>Made from <a href="{html.escape(base)}/openapi.json">openapi.json</a>. Send a token with each call: '
        "<code>Authorization: Bearer TOKEN</code>.</p>"
        + "".join(parts)
        + _refusals()
        + _shapes(description)
        + "</html>"
    )


def _refusals() -> str:
    rows = "".join(f"<tr><td>{status}<td>{html.escape(text)}" for status, text in _REFUSALS.items())
    return f"<h2>When a call is refused</h2><p>The answer is a {_link('Problem')}.</p><table>{rows}</table>"


def _shapes(description: dict[str, Any]) -> str:
    """What the calls take and give, each to be linked to by its name."""
    schemas = sorted(description["components"]["schemas"].items())
    shown = (
        f'<details id="{name}"><summary><code>{name}</code></summary>{_facts(one)}</details>' for name, one in schemas
    )
    return "<h2>Shapes</h2>" + "".join(shown)


def _facts(value: Any) -> str:
    """Data as text, in which the names of shapes are links."""
    text = html.escape(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), quote=False)
    return f"<pre>{_REFERENCE.sub(lambda found: _link(found[1]), text)}</pre>"


def _link(shape: str) -> str:
    return f'<a href="#{shape}">{shape}</a>'


def _shown(endpoint: Endpoint, description: dict[str, Any]) -> str:
    operation = description["paths"][endpoint.path][endpoint.method.lower()]
    facts = {key: operation[key] for key in ("parameters", "requestBody") if operation.get(key)}
    facts["answers"] = operation["responses"][str(endpoint.status)].get("content", "nothing")
    return (
        f"<details><summary><code>{endpoint.method} {html.escape(endpoint.path)}</code> "
        f'{html.escape(endpoint.summary)}<span class="role">{endpoint.role or "everybody"}</span></summary>'
        f"{_facts(facts)}</details>"
    )
