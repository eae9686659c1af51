"""`create_app`: the API as an ASGI app, to be served by `holdfast serve` or mounted in an app of yours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from holdfast.ports import Ledger
from holdfast.runtime import Runtime, default_runtime
from holdfast.server import (
    _pages,
    _routes_flows,
    _routes_hooks,
    _routes_jobs,
    _routes_runs,
    _routes_schedules,
    _routes_system,
    _routes_tokens,
)
from holdfast.server._backend import Backend, Queue
from holdfast.server._dispatch import Dispatcher
from holdfast.server._endpoint import Endpoint
from holdfast.server._guard import Guard
from holdfast.server._openapi import describe_api, docs_page, style_sheet
from holdfast.server._problems import Problem, problem_response
from holdfast.server._settings import Settings
from holdfast.server._tokens import Tokens

ENDPOINTS: tuple[Endpoint, ...] = (
    *_routes_jobs.ENDPOINTS,
    *_routes_flows.ENDPOINTS,
    *_routes_hooks.ENDPOINTS,
    *_routes_runs.ENDPOINTS,
    *_routes_schedules.ENDPOINTS,
    *_routes_system.ENDPOINTS,
    *_routes_tokens.ENDPOINTS,
)
"""Every call there is."""


class App(Guard):
    """The ASGI app. `close()` lets its streams end, so that a server can stop."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        super().__init__(_routes(backend), backend.settings, backend.metrics)

    def close(self) -> None:
        """End all streams; their clients are told why. Twice is fine."""
        self.backend.feeds.close()


def create_app(
    runtime: Runtime | None = None,
    *,
    tokens: Tokens | Path | str,
    settings: Settings | None = None,
    queue: Queue | None = None,
    project: Path | None = None,
    ledger: Ledger | None = None,
) -> App:
    """The API over a runtime, else the default one of this process: its runs can be listed and followed.

    `tokens` says who is let in: the file where they are kept. With a `queue` there are jobs, with a `project` flow files, with
    a `ledger` also what other processes hold.
    """
    known = tokens if isinstance(tokens, Tokens) else Tokens(Path(tokens))
    backend = Backend(
        runtime or default_runtime(), tokens=known, settings=settings or Settings(), queue=queue, project=project,
        ledger=ledger,
    )  # fmt: skip
    return App(backend)


def _routes(backend: Backend) -> Starlette:
    dispatcher = Dispatcher(backend)
    description = describe_api(ENDPOINTS)
    page = partial(docs_page, ENDPOINTS, description)
    app = Starlette(
        routes=[
            *_calls(dispatcher),
            Route("/openapi.json", _noted("/openapi.json", partial(_described, description))),
            Route("/docs", _noted("/docs", lambda request: HTMLResponse(page(request.scope.get("root_path", ""))))),
            Route("/docs.css", _noted("/docs.css", lambda _: PlainTextResponse(style_sheet(), media_type="text/css"))),
            *_pages.routes(),
        ],
        exception_handlers={HTTPException: _refuse, 404: _refuse, 405: _refuse},
    )
    app.router.redirect_slashes = False
    return app


def _described(description: dict[str, Any], request: Request) -> Response:
    """The description, with where the calls are: a mounted app is not at the root."""
    servers = [{"url": request.scope.get("root_path", "") or "/"}]
    return Response(msgspec.json.encode(description | {"servers": servers}), media_type="application/json")


Answer = Callable[[Request], Awaitable[Response]]


def _calls(dispatcher: Dispatcher) -> list[Route]:
    """One route for each path, so that who calls with a wrong method is told every right one."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for one in ENDPOINTS:
        by_path.setdefault(one.path, {})[one.method] = one
    return [Route(path, _answer(dispatcher, methods), methods=[*methods]) for path, methods in by_path.items()]


def _answer(dispatcher: Dispatcher, methods: dict[str, Endpoint]) -> Answer:
    async def answer(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        request.scope["endpoint_path"] = endpoint.path
        return await dispatcher.answer(endpoint, request)

    return answer


def _noted(path: str, make: Callable[[Request], Response]) -> Answer:
    async def answer(request: Request) -> Response:
        request.scope["endpoint_path"] = path
        return make(request)

    return answer


async def _refuse(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    codes = {404: ("unknown_path", "there is nothing here; /docs says what there is"),
             405: ("wrong_method", "this cannot be called so; /docs says how")}  # fmt: skip
    code, message = codes.get(status, ("refused", "refused"))
    headers = dict(getattr(error, "headers", None) or {})
    return problem_response(status, Problem(code, message), headers)
