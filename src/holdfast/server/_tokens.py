"""Tokens: who may do what. Only their hashes are kept, in a file of the project that its owner alone can read."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from holdfast.errors import ConfigurationError, UsageError

Role = Literal["read", "operate", "admin"]
ROLES: tuple[Role, ...] = ("read", "operate", "admin")
"""Each may do what those before it may: look; submit, answer and steer jobs; delete, and change what others made."""
PREFIX = "hf"
FILE = "tokens.json"
T = TypeVar("T")


class Identity(Struct, frozen=True):
    """Who makes a call."""

    token_id: str
    name: str
    role: Role

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


class Token(Struct, frozen=True):
    """What is kept of a token: enough to know it again, not enough to use it."""

    id: str
    name: str
    role: Role
    digest: str
    created_us: int
    expires_us: int | None = None

    def has_run_out(self, now_us: int) -> bool:
        return self.expires_us is not None and self.expires_us <= now_us


class Tokens:
    """The tokens of a project. Several processes may use the file: a change counts from the next call on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, int, int], dict[str, Token]] | None = None

    def make(self, name: str, role: Role, *, now_us: int, seconds: float | None = None) -> str:
        """Make a token and return it: it is shown this once, and kept nowhere. Raises UsageError if the name is taken."""
        if not name.strip() or not name.isprintable() or len(name) > 100:
            raise UsageError(f"{name!r:.120} cannot be the name of a token; choose a short one that can be printed")
        token_id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        expires_us = None if seconds is None else now_us + int(seconds * 1_000_000)
        token = Token(token_id, name, role, _digest(secret), now_us, expires_us)

        def add(known: list[Token]) -> list[Token]:
            if any(name == one.name for one in known):
                raise UsageError(f"there is a token {name!r} already; revoke it first, or choose another name")
            return [*known, token]

        self._change(add)
        return f"{PREFIX}_{token_id}_{secret}"

    def revoke(self, named: str) -> Token:
        """Let a token, by its name or id, count no more. Raises UsageError if there is none."""
        found: list[Token] = []

        def remove(known: list[Token]) -> list[Token]:
            found.extend(one for one in known if named in (one.name, one.id))
            return [one for one in known if one not in found]

        self._change(remove)
        if not found:
            raise UsageError(f"there is no token {named!r}; `holdfast token list` lists them")
        return found[0]

    def all(self) -> list[Token]:
        """Every token that is kept, oldest first. Raises ConfigurationError if the file cannot be read."""
        return [*self._known().values()]

    def check(self, offered: str, *, now_us: int) -> Identity | None:
        """Whose token this is; None if it is nobody's, was revoked or has run out."""
        prefix, _, rest = offered.partition("_")
        token_id, _, secret = rest.partition("_")
        token = self._known().get(token_id)
        digest = _digest(secret)  # also for an id that nobody has: the answer takes as long
        if prefix != PREFIX or token is None or not hmac.compare_digest(digest, token.digest):
            return None
        if token.has_run_out(now_us):
            return None
        return Identity(token.id, token.name, token.role)

    def still_counts(self, who: Identity, *, now_us: int) -> bool:
        """Whether somebody who was let in would be let in again: the token was not revoked, and has not run out."""
        token = self._known().get(who.token_id)
        return token is not None and token.role == who.role and not token.has_run_out(now_us)

    def _known(self) -> dict[str, Token]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        state = (found.st_mtime_ns, found.st_ino, found.st_size)
        if self._read is None or self._read[0] != state:
            self._read = (state, {token.id: token for token in _load(self.path)})
        return self._read[1]

    def _change(self, change: Callable[[list[Token]], list[Token]]) -> None:
        with _locked(self.path):
            _save(self.path, change(_load(self.path) if self.path.exists() else []))


def _digest(secret: str) -> str:
    """32 random bytes need no slow hash: nobody can try them all."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _load(path: Path) -> list[Token]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Token])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; move it away and make new tokens") from error


def _save(path: Path, tokens: list[Token]) -> None:
    aside = path.with_name(f"{path.name}.new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One change at a time, of all processes."""
    try:
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
