"""Signals of the operating system that reached this process."""

from __future__ import annotations

from typing import ClassVar

from holdfast.events._base import BaseEvent


class SignalEvent(BaseEvent):
    """The process received a signal: listen to this one to see them all."""

    type: ClassVar[str] = "signal"

    signum: int


class SigTermEvent(SignalEvent):
    """The process was asked to end."""

    type: ClassVar[str] = "sig_term"


class SigIntEvent(SignalEvent):
    """The process was interrupted from the keyboard."""

    type: ClassVar[str] = "sig_int"


class SigHupEvent(SignalEvent):
    """The terminal of the process went away, or a reload was asked for."""

    type: ClassVar[str] = "sig_hup"


class SigTstpEvent(SignalEvent):
    """The process was asked to suspend itself."""

    type: ClassVar[str] = "sig_tstp"


class SigContEvent(SignalEvent):
    """The process was woken after a suspension."""

    type: ClassVar[str] = "sig_cont"
