"""From a request to its handler and back: who calls, may they, does what they sent fit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from holdfast.logs import get_logger
from holdfast.server._backend import CHALLENGE, Backend
from holdfast.server._endpoint import Call, Endpoint
from holdfast.server._problems import Problem, Refused, answer_to, problem_response
from holdfast.server._rates import Rates
from holdfast.server._routes_system import COOKIE
from holdfast.server._tokens import Identity

log = get_logger("server")


class Dispatcher:
    """Carries out calls of a route table."""

    def __init__(self, backend: Backend) -> None:
        settings = backend.settings
        self._backend = backend
        self._calls = Rates(backend.clock, settings.calls_per_second, settings.burst)

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        """The answer to a call; whatever goes wrong is one too."""
        try:
            who = self._let_in(endpoint, request)
            async with asyncio.timeout(self._backend.settings.call_seconds):
                call = await self._read(endpoint, request, who)
                return _response(endpoint, await endpoint.handler(self._backend, call))
        except TimeoutError:
            problem = Problem("too_long", "the server could not answer in time; ask for less, or try later")
            return problem_response(503, problem, {"Retry-After": "5"})
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            answer = answer_to(error, self._backend.project)
            if answer is None:  # what it says may hold anything: it is for the log, not for the client
                log.exception("%s %s failed", endpoint.method, endpoint.path)
                return problem_response(500, Problem("internal", "something broke; the server's log says what"))
            return answer

    # -- who ---------------------------------------------------------------------------------------------------------

    def _let_in(self, endpoint: Endpoint, request: Request) -> Identity | None:
        address = request.client.host if request.client else ""
        if endpoint.role is None:
            self._bound(f"address {address}")
            return None
        who = self._identify(request, address)
        request.state.who = who
        self._bound(f"token {who.token_id}")
        if not who.may(endpoint.role):
            raise Refused(403, "forbidden", f"this needs the role {endpoint.role}; this token has {who.role}")
        return who

    def _bound(self, who: str) -> None:
        if wait := self._calls.wait_for(who):
            raise Refused(429, "too_many_calls", "too many calls; slow down", {"Retry-After": f"{wait + 1:.0f}"})

    def _identify(self, request: Request, address: str) -> Identity:
        offered = _offered(request)
        if not offered:
            raise Refused(401, "no_token", "say who you are: Authorization: Bearer TOKEN", CHALLENGE)
        return self._backend.identify(offered, address)

    # -- what --------------------------------------------------------------------------------------------------------

    async def _read(self, endpoint: Endpoint, request: Request, who: Identity | None) -> Call[Any, Any]:
        query = _fit(_query_data(endpoint, request.query_params), endpoint.query, "the query", strict=False)
        body = None if endpoint.body is None else await self._body(endpoint.body, request)
        return Call(request, who, request.path_params, query, body)

    async def _body(self, kind: type[Any], request: Request) -> Any:
        try:
            async with asyncio.timeout(self._backend.settings.body_seconds):
                data = await request.body()
        except TimeoutError:
            raise Refused(408, "slow_body", "the request's body did not arrive in time") from None
        if not data:
            data = b"{}"
        elif request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "not_json", "send Content-Type: application/json")
        try:
            return _fit(msgspec.json.decode(data), kind, "the body", strict=True)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, "not_json", f"the body is not JSON: {error}") from error


def _offered(request: Request) -> str:
    """The token of a request: in its header, or in the cookie of our own page."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    return request.cookies.get(COOKIE, "")


def _query_data(endpoint: Endpoint, given: QueryParams) -> dict[str, Any]:
    """The query as data: a parameter that may be given several times is a list."""
    lists = {
        field.encode_name
        for field in msgspec.structs.fields(endpoint.query)
        if getattr(field.type, "__origin__", None) is list
    }
    data: dict[str, Any] = {}
    for name in given:
        values = given.getlist(name)
        if name not in lists and len(values) > 1:
            raise Refused(400, "query", f"give {name!r:.60} once")
        data[name] = values if name in lists else values[0]
    return data


def _fit(data: Any, kind: type[Any], where: str, *, strict: bool) -> Any:
    try:
        return msgspec.convert(data, kind, strict=strict)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refused(400, "does_not_fit", f"{where} does not fit: {error}") from error


def _response(endpoint: Endpoint, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    if answer is None:
        return Response(status_code=204)
    return Response(msgspec.json.encode(answer), endpoint.status, media_type="application/json")
