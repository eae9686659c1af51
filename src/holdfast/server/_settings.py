"""What a server allows: who may reach it, and how much a client may ask of it."""

from __future__ import annotations

from msgspec import Struct

from holdfast.clock import check_seconds

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Settings(Struct, frozen=True, kw_only=True):
    """Bounds of one server. The defaults suit one person on one machine."""

    hosts: tuple[str, ...] = LOCAL_HOSTS
    """what a request's Host may say, without the port; anything else is refused, so that no foreign name leads here"""
    origins: tuple[str, ...] = ()
    """pages that may call besides our own, as `https://example.org`"""
    max_body: int = 1024 * 1024
    """bytes of a request's body"""
    body_seconds: float = 10.0
    """how long a body may take to arrive"""
    call_seconds: float = 30.0
    """how long an answer may take; streams are not bounded"""
    calls_per_second: float = 100.0
    burst: int = 400
    """calls that one token may make at once, before the rate counts"""
    failures_per_minute: float = 30.0
    """wrong tokens that one address may offer"""
    max_streams: int = 2000
    """streams that are open at once"""
    heartbeat_seconds: float = 15.0
    stuck_seconds: float = 20.0
    """how long a stream's client may take nothing before it is dropped"""
    kept_frames: int = 2048
    """frames of one stream that are kept in memory: how far a client may be behind"""
    poll_seconds: float = 0.05
    """how often what other processes stored is looked for"""

    def __post_init__(self) -> None:
        check_seconds(
            body_seconds=self.body_seconds, call_seconds=self.call_seconds, heartbeat_seconds=self.heartbeat_seconds,
            stuck_seconds=self.stuck_seconds, poll_seconds=self.poll_seconds,
        )  # fmt: skip
