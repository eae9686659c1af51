"""Resources: what a run holds, gives back, or leaves to the sweep."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent


class ResourceAcquiredEvent(BaseEvent):
    """A run holds a resource."""

    type: ClassVar[str] = "resource_acquired"

    kind: str
    resource: str


class ResourceReleasedEvent(BaseEvent):
    """A run no longer holds a resource."""

    type: ClassVar[str] = "resource_released"

    kind: str
    resource: str


class ResourceReleaseFailedEvent(BaseEvent):
    """A resource could not be released and stays in the ledger for the sweep."""

    type: ClassVar[str] = "resource_release_failed"

    kind: str
    resource: str
    error: str
    error_type: str


class ResourceSweptEvent(BaseEvent):
    """The sweep ended a resource whose owner is gone."""

    type: ClassVar[str] = "resource_swept"

    kind: str
    resource: str
    owner: str = ""
