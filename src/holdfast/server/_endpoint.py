"""One row of the route table: what it is called, who may call it, what it takes and gives. The OpenAPI page is made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct
from starlette.requests import Request

from holdfast.server._backend import Backend
from holdfast.server._tokens import Identity, Role

Name: TypeAlias = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A line of text that is stored and shown."""
Words: TypeAlias = Annotated[str, Meta(max_length=2000, pattern=r"^[^\x00]*$")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Position: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """Takes nothing."""


Q = TypeVar("Q")
B = TypeVar("B")


class Call(Struct, Generic[Q, B], frozen=True):
    """A call that was let in, and whose parts fit."""

    request: Request
    who: Identity | None
    path: Mapping[str, str]
    query: Q
    body: B


Handler: TypeAlias = Callable[[Backend, Any], Awaitable[Any]]


class Endpoint(Struct, frozen=True, kw_only=True):
    """A row of the route table."""

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    role: Role | None
    """who may call it, at least; None for everybody"""
    handler: Handler
    """gives an answer to encode, or a whole response"""
    summary: str
    group: str
    query: type[Struct] = Nothing
    body: type[Struct] | None = None
    answer: Any = None
    """the type of what is given as JSON; None for nothing, or another media type"""
    media: str = "application/json"
    other_media: tuple[str, ...] = ()
    """what else it gives if asked"""
    status: int = 200
    frames: Mapping[str, Any] = {}
    """of a stream: by the name of each event, the type of its data"""

    @property
    def is_stream(self) -> bool:
        return self.media == "text/event-stream"
