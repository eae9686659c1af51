"""As much of HTTP/1.1 as a model's client speaks: one POST after another on a kept connection."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Mapping

from msgspec import Struct

MAX_BODY = 64 * 1024 * 1024


class HttpRequest(Struct, frozen=True):
    """A request that has come in whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request; None when the client has gone, in the middle of one or between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(_header(line) for line in lines if line)
        length = int(headers.get("content-length", "0"))
        if length > MAX_BODY:
            return None
        body = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return None
    method, path, _ = first.split(" ", 2)
    return HttpRequest(method, path.partition("?")[0], headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The first lines of a response."""
    lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase if status in _KNOWN else 'Scripted'}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


_KNOWN = {status.value for status in http.HTTPStatus}


def whole_response(status: int, body: bytes, content_type: str, extra: Mapping[str, str]) -> bytes:
    return head(status, {"content-type": content_type, "content-length": str(len(body)), **extra}) + body


def chunk(data: bytes) -> bytes:
    """A piece of a chunked body; the empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM_HEAD = head(
    200, {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
)
