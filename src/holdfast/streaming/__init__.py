"""Streams: the frames of a run while it goes on, to each run its own."""

from __future__ import annotations

from holdfast.streaming._frames import ChannelName, Frame
from holdfast.streaming._start import start_apart, start_here
from holdfast.streaming._stream import Observer, RunStream, observe

__all__ = ["ChannelName", "Frame", "Observer", "RunStream", "observe", "start_apart", "start_here"]
