"""What every request passes: where it says it goes, where it comes from, how large it is. And what every answer carries."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.logs import get_logger
from holdfast.server._metrics import Metrics
from holdfast.server._problems import Refused, problem_response
from holdfast.server._settings import Settings

log = get_logger("server.access")

PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PICTURE = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")


class Guard:
    """Lets requests through to an app, or refuses them."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        begun, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _dress(MutableHeaders(scope=message))
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, _bounded(receive, self._settings.max_body), answer)
        except Refused as refused:
            response = problem_response(refused.status, refused.problem, refused.headers)
            await response(scope, receive, answer)
        finally:
            self._note(scope, status, time.perf_counter() - begun)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._settings.hosts:
            raise Refused(421, "wrong_host", "this server is not called so; allow the name with --allow-host")
        for origin in headers.getlist("origin"):
            if origin not in self._settings.origins and not _is_same(origin, scope["scheme"], hosts[0]):
                raise Refused(403, "wrong_origin", "pages of another origin may not call; allow it with --allow-origin")
        if "origin" not in headers and scope["method"] not in SAFE and headers.get("sec-fetch-site") == "cross-site":
            raise Refused(403, "wrong_origin", "pages of another origin may not call")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._settings.max_body:
            raise _too_large(self._settings.max_body)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """No query, no header and no body is written down: any of them may hold something secret."""
        route = scope.get("endpoint_path", "other")
        self._metrics.note_call(scope["method"] if route != "other" else "any", route, status, seconds)
        who = scope.get("state", {}).get("who")
        log.info(
            "%s %s %d %.1f ms by %s", scope["method"], route, status, seconds * 1000, who.name if who else "nobody"
        )


def _name(host: str) -> str:
    """A Host header without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def _is_same(origin: str, scheme: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return (parts.scheme, parts.netloc.lower()) == (scheme, host.lower())


def _too_large(allowed: int) -> Refused:
    return Refused(413, "too_large", f"a request may have {allowed} bytes at most")


def _bounded(receive: Receive, allowed: int) -> Receive:
    """Bodies that do not say how long they are, or lie."""
    left = allowed

    async def receive_bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large(allowed)
        return message

    return receive_bounded


def _dress(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    is_picture = headers.get("content-type", "").startswith("image/svg")
    headers["Content-Security-Policy"] = PICTURE if is_picture else PAGE
    headers.setdefault("Cache-Control", "no-store")
