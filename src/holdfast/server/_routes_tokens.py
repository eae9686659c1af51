"""Tokens over HTTP, for admins: listed, made, revoked. What a token is, is shown once and kept nowhere."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.errors import UsageError
from holdfast.server._backend import Backend
from holdfast.server._endpoint import Call, Endpoint, Nothing
from holdfast.server._problems import Refused
from holdfast.server._tokens import Role, Token
from holdfast.server._views import moment


class TokenView(Struct, frozen=True):
    """A token, without what it takes to use it."""

    id: str
    name: str
    role: Role
    created: datetime
    expires: datetime | None
    is_mine: bool
    """whether it is the one of this call"""


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
    role: Role = "read"
    days: Annotated[int, Meta(ge=1, le=3650)] | None = None
    """how long it counts; for ever if left out"""


class MadeToken(Struct, frozen=True):
    """A token, this once."""

    name: str
    role: Role
    token: str


async def list_tokens(backend: Backend, call: Call[Nothing, None]) -> list[TokenView]:
    mine = call.who.token_id if call.who is not None else ""
    return [_view(one, mine) for one in await asyncio.to_thread(backend.tokens.all)]


def _view(one: Token, mine: str) -> TokenView:
    expires = None if one.expires_us is None else moment(one.expires_us)
    return TokenView(one.id, one.name, one.role, moment(one.created_us), expires, one.id == mine)


async def make_token(backend: Backend, call: Call[Nothing, NewToken]) -> MadeToken:
    new = call.body
    seconds = None if new.days is None else new.days * 86400.0
    made = await asyncio.to_thread(backend.tokens.make, new.name, new.role, now_us=backend.now_us(), seconds=seconds)
    return MadeToken(new.name, new.role, made)


async def revoke_token(backend: Backend, call: Call[Nothing, None]) -> None:
    token_id = call.path["token_id"]
    if call.who is not None and token_id == call.who.token_id:
        raise Refused(
            409, "own_token", "this is the token you call with; revoke it with another, or `holdfast token revoke`"
        )
    if token_id not in {one.id for one in await asyncio.to_thread(backend.tokens.all)}:
        raise Refused(404, "unknown_token", f"there is no token {token_id!r:.60}")
    try:
        await asyncio.to_thread(backend.tokens.revoke, token_id)
    except UsageError:  # somebody else was faster
        return


ENDPOINTS = (
    Endpoint(
        method="GET", path="/api/v1/tokens", role="admin", handler=list_tokens, group="tokens", answer=list[TokenView],
        summary="List tokens",
    ),
    Endpoint(
        method="POST", path="/api/v1/tokens", role="admin", handler=make_token, group="tokens", body=NewToken,
        answer=MadeToken, status=201, summary="Make a token; it is shown this once",
    ),
    Endpoint(
        method="DELETE", path="/api/v1/tokens/{token_id}", role="admin", handler=revoke_token, group="tokens", status=204,
        summary="Let a token count no more",
    ),
)  # fmt: skip
