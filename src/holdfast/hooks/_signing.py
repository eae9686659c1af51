"""Signatures: how a receiver knows that a message is ours, whole, and of now."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigurationError, SignatureError

DELIVERY, TIMESTAMP, SIGNATURE = "Holdfast-Delivery", "Holdfast-Timestamp", "Holdfast-Signature"
KEY_FILE = "webhook.key"
TOLERANCE = 300.0


def signed(secret: str, delivery_id: str, body: bytes, *, now: float) -> dict[str, str]:
    """The headers of a message: which delivery it is, when it was signed, and the signature of both time and body."""
    timestamp = str(int(now))
    return {DELIVERY: delivery_id, TIMESTAMP: timestamp, SIGNATURE: f"v1={_signature(secret, timestamp, body)}"}


def verify(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: float, tolerance: float = TOLERANCE
) -> dict[str, Any]:
    """What a message tells, if it was signed with the secret no more than `tolerance` seconds before or after `now`.

    Raises SignatureError if it was not. A message may come more than once, by retry or by someone who repeats it: its `id` is the
    same each time, so remember the ids you acted on for at least the tolerance.
    """
    found = {name.lower(): value for name, value in headers.items()}
    timestamp, signature = found.get(TIMESTAMP.lower(), ""), found.get(SIGNATURE.lower(), "")
    if not timestamp or not signature:
        raise SignatureError(f"the headers {TIMESTAMP} and {SIGNATURE} are needed; this message has not both")
    expected = f"v1={_signature(secret, timestamp, body)}"
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        raise SignatureError("this message is not signed with this secret, or was altered on its way")
    if abs(now - int(timestamp)) > tolerance:  # signed, so it is a number
        raise SignatureError(
            f"this message is {abs(now - int(timestamp)):.0f} s old, more than {tolerance:.0f}: see to the clocks, or it is "
            "an old one that somebody sends again"
        )
    told: dict[str, Any] = json.loads(body)
    return told


def _signature(secret: str, timestamp: str, body: bytes) -> str:
    text = timestamp.encode("utf-8", "replace") + b"." + body
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def project_key(home: Path) -> str:
    """The project's own key, for hooks that name none and for webhooks of jobs; made on first use, for its owner alone.

    Raises ConfigurationError if it can be neither read nor made.
    """
    path = home / KEY_FILE
    try:
        if not path.exists():
            _make_key(path)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be used: {error}; see to the file and its folder") from error
    if len(key) < 32:
        raise ConfigurationError(f"{path} holds no key; delete it and another is made")
    return key


def _make_key(path: Path) -> None:
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first: its key counts
            os.link(aside, path)
    finally:
        aside.unlink()
