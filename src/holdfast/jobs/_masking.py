"""Keeping secret values out of whatever is shown or stored."""

from __future__ import annotations

from typing import Any

import msgspec

SHOWN = "•••"


def masked(value: Any, secrets: tuple[str, ...]) -> Any:
    """Without what must not be shown, at any depth, names included."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, SHOWN)
        return value
    if isinstance(value, dict):
        return {masked(key, secrets): masked(inner, secrets) for key, inner in value.items()}
    return [masked(inner, secrets) for inner in value] if isinstance(value, list) else value


class StreamMask:
    """Masks text that comes in pieces: what may be the beginning of a secret is held back until the next piece shows."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._held = ""

    def feed(self, text: str) -> str:
        """What may be shown by now."""
        if not self._secrets:
            return text
        text = masked(self._held + text, self._secrets)
        keep = max(_begun(text, secret) for secret in self._secrets)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def close(self) -> str:
        """What was held back: it was no secret after all."""
        held, self._held = self._held, ""
        return held


def _begun(text: str, secret: str) -> int:
    """How many characters at the end of a text may be the beginning of a secret."""
    for length in range(min(len(secret) - 1, len(text)), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0


def as_stored(secrets: tuple[str, ...]) -> tuple[bytes, ...]:
    """How secrets look inside stored JSON."""
    return tuple(msgspec.json.encode(secret)[1:-1] for secret in secrets)
