"""One message over HTTP: no redirect is followed, no more is read than needed, and it ends in time."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from holdfast.errors import DeliveryError, DeliveryRefusedError
from holdfast.hooks._addresses import Address

HEAD_BYTES = 32 * 1024
REST_BYTES = 64 * 1024
REST_SECONDS = 1.0
"""What a receiver may still say once it has accepted a message; a connection cut off before would look like an error there."""
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r)")
GONE = 410


async def post(address: Address, places: list[str], headers: Mapping[str, str], body: bytes, *, seconds: float) -> None:
    """Send a message, and return when the receiver has accepted it with a 2xx.

    Raises DeliveryError if it did not, or not in time; DeliveryRefusedError if it says that it is gone for good (410).
    """
    try:
        async with asyncio.timeout(seconds):
            status = await _post(address, places, headers, body)
    except TimeoutError as error:
        raise DeliveryError(f"{address.authority} did not answer within {seconds:g} s") from error
    except asyncio.IncompleteReadError as error:
        raise DeliveryError(f"{address.authority} closed the connection without an answer") from error
    except asyncio.LimitOverrunError as error:
        raise DeliveryError(f"{address.authority} answered with more than any answer needs") from error
    except OSError as error:
        raise DeliveryError(f"{address.authority} cannot be reached: {error.strerror or error}") from error
    if status == GONE:
        raise DeliveryRefusedError(f"{address.authority} answered 410: it is gone for good")
    if 300 <= status < 400:
        raise DeliveryError(
            f"{address.authority} answered {status}: redirects are not followed; give the final address"
        )
    if not 200 <= status < 300:
        raise DeliveryError(f"{address.authority} answered {status}")


async def _post(address: Address, places: list[str], headers: Mapping[str, str], body: bytes) -> int:
    reader, writer = await _connect(address, places)
    try:
        writer.write(_head(address, headers, len(body)) + body)
        await writer.drain()
        status = 100
        while 100 <= status < 200:
            head = await reader.readuntil(b"\r\n\r\n")
            status = _status(address, head)
        if 200 <= status < 300:
            await _rest(reader)
        return status
    finally:
        writer.transport.abort()


async def _connect(address: Address, places: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first place that answers. The name is not looked up again: it could lead elsewhere by now."""
    secure = {"ssl": _trust(), "server_hostname": address.host} if address.scheme == "https" else {}
    problem: OSError | None = None
    for place in places:
        try:
            return await asyncio.open_connection(place, address.port, limit=HEAD_BYTES, **secure)  # type: ignore[arg-type]
        except OSError as error:
            problem = error
    assert problem is not None
    raise problem


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates; SSL_CERT_FILE and SSL_CERT_DIR name others."""
    return ssl.create_default_context()


def _head(address: Address, headers: Mapping[str, str], length: int) -> bytes:
    lines = {
        "Host": address.authority,
        "User-Agent": "holdfast",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Connection": "close",
        **headers,
    }
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {address.path} HTTP/1.1\r\n{text}\r\n".encode("ascii")


def _status(address: Address, head: bytes) -> int:
    found = _STATUS.match(head)
    if found is None:
        raise DeliveryError(f"{address.authority} does not speak HTTP")
    return int(found[1])


async def _rest(reader: asyncio.StreamReader) -> None:
    left = REST_BYTES
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(REST_SECONDS):
            while left > 0 and (data := await reader.read(left)):
                left -= len(data)
