"""Serving an app over HTTP until told to stop, beside a worker if there is one."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from msgspec import Struct

from holdfast.errors import ConfigurationError, UsageError
from holdfast.server._app import App
from holdfast.server._protocol import PatientProtocol
from holdfast.service import Worker

GRACE_SECONDS = 10
"""How long calls that are being answered get, once the server is to stop."""
HEAD_BYTES = 32 * 1024
SPARE = 200
"""Connections beside streams."""


class Binding(Struct, frozen=True, kw_only=True):
    """Where a server listens."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    public_without_tls: bool = False

    @property
    def has_tls(self) -> bool:
        return self.certificate is not None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        return "https" if self.has_tls else "http"

    def check(self) -> None:
        """Raise UsageError if others could reach it in the clear, or half of TLS is missing.

        Raises ConfigurationError if the certificate cannot be used.
        """
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--tls-cert and --tls-key belong together; give both")
        if self.certificate is not None:
            _try_certificate(self.certificate, self.key)
        if not (self.is_local or self.has_tls or self.public_without_tls):
            raise UsageError(
                f"{self.host} can be reached from other machines, and tokens would cross the network in the clear: give "
                "--tls-cert and --tls-key, listen on 127.0.0.1, or say --public-without-tls if a proxy in front has TLS"
            )

    def listen(self) -> socket.socket:
        """A socket that listens. Raises ConfigurationError, saying why, if it cannot be had."""
        self.check()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        made = socket.socket(
            family, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )  # said outright, so that asyncio sets NODELAY
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((self.host, self.port))
            made.listen(1024)
        except OSError as error:
            made.close()
            raise ConfigurationError(
                f"cannot listen on {self.host} port {self.port}: {error.strerror or error}; choose another with --port"
            ) from error
        made.setblocking(False)
        return made


def _try_certificate(certificate: Path, key: Path | None) -> None:
    """Now, not when the link that lets in was shown already."""
    try:  # no password: a server has nobody to ask
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or str(error)
        raise ConfigurationError(
            f"TLS with {certificate} and {key} is not possible: {why}; give a certificate and its key as PEM, without a password"
        ) from error


class Serving:
    """One server. `stop()` makes it leave."""

    def __init__(self, app: App, binding: Binding, worker: Worker | None = None) -> None:
        self._app, self._worker = app, worker
        self._server = uvicorn.Server(_config(app, binding))

    def stop(self) -> None:
        """Let calls and streams end, and the worker leave. Called again, wait for nobody."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True
        self._app.close()
        if self._worker is not None:
            self._worker.stop()

    async def serve(self, listening: socket.socket, *, started: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped. Raises what broke the worker."""
        if (endings := self._app.backend.endings) is not None:
            await endings.begin()
        working = asyncio.ensure_future(self._work())
        answering = asyncio.ensure_future(self._server._serve([listening]))  # its `serve` takes the signals
        started()
        try:
            await asyncio.wait({working, answering}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop()
            await asyncio.wait({working, answering})
            listening.close()
        await answering
        await working

    async def _work(self) -> None:
        if self._worker is not None:
            await self._worker.serve()
        else:
            await self._app.backend.feeds.closing.wait()


def _config(app: App, binding: Binding) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=app.backend.settings.max_streams + SPARE,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        ssl_certfile=binding.certificate,
        ssl_keyfile=binding.key,
    )


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block SIGINT and SIGTERM call `stop`."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
