"""Addresses of receivers: which can be given, and which of the places they lead to may be reached."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias
from urllib.parse import quote, urlsplit

from msgspec import Struct

from holdfast.errors import DeliveryError, DeliveryRefusedError, UsageError
from holdfast.ports import WEBHOOK

Ip: TypeAlias = IPv4Address | IPv6Address

NEVER = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "224.0.0.0/3",
        "::/128", "fe80::/10", "ff00::/8", "fd00:ec2::254/128",
    )
)  # fmt: skip
"""Nobody's receiver is there: this host without a name, link-local and what clouds tell their machines, multicast, reserved."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
LONGEST = 2_000


class Address(Struct, frozen=True):
    """Where a message goes."""

    scheme: str
    host: str
    port: int
    path: str
    """with the query"""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Without what may be a secret: many receivers know their senders by a path nobody else knows."""
        return f"{self.scheme}://{self.authority}/…"


_PORTS = {"http": 80, "https": 443}


def read_address(url: str) -> Address:
    """An address, of a URL. Raises UsageError, saying why, if nothing can be sent there."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host = host if ":" in host else host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError) as error:
        raise UsageError(f"{url[:200]!r} is no address: {error}") from error
    if parts.scheme not in _PORTS or not host or len(url) > LONGEST or not url.isprintable() or " " in url:
        raise UsageError(f"{url[:200]!r} is no address; write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"the address at {host} holds a password, which would be stored: messages are signed instead")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return Address(
        parts.scheme,
        host,
        _PORTS[parts.scheme] if port is None else port,
        f"{path}?{query}" if query else path,
    )


def show_target(target: str) -> str:
    """A delivery's target without what may be a secret."""
    if not target.startswith(WEBHOOK):
        return target
    try:
        return WEBHOOK + read_address(target.removeprefix(WEBHOOK)).shown
    except UsageError:
        return WEBHOOK + "…"


class Reach:
    """Where messages may go. `inside` names hosts and networks of our own that may be reached; None lets all of them."""

    def __init__(self, inside: Iterable[str] | None) -> None:
        self._all = inside is None
        self._hosts: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for text in inside or ():
            try:
                self._networks.append(ipaddress.ip_network(text, strict=False))
            except ValueError:
                self._hosts.add(text.lower())

    async def places(self, address: Address) -> list[str]:
        """The addresses a host stands for, as far as they may be reached. What was checked is what is connected to.

        Raises DeliveryError if it stands for none, DeliveryRefusedError if for none that may be reached.
        """
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise DeliveryError(f"{address.host} cannot be found: {error.strerror or error}") from error
        places = [*dict.fromkeys(str(one[4][0]) for one in found)]
        allowed = [place for place in places if self.allows(address.host, place)]
        if not allowed:
            raise DeliveryRefusedError(
                f"{address.host} is {', '.join(places[:3])}, which webhooks may not reach; if it is meant, add it to "
                "`allow` of [webhooks] in holdfast.toml (link-local addresses never)"
            )
        return allowed

    def allows(self, host: str, place: str) -> bool:
        """Whether a host may be reached at a place it stands for."""
        ip = _real(ipaddress.ip_address(place.partition("%")[0]))
        if any(ip in network for network in NEVER):
            return False
        if self._all or ip.is_global or host.lower() in self._hosts:
            return True
        return any(ip in network for network in self._networks)


def is_place(host: str) -> bool:
    """Whether a host is no name but an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _real(ip: Ip) -> Ip:
    """The IPv4 address that an IPv6 one carries: what looks like another network leads there."""
    if isinstance(ip, IPv4Address):
        return ip
    if ip in NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or ip
