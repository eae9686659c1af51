"""Programs in processes of their own, for tests that send signals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.events.samples import ROOT

HEAD = """
import os, signal, sys, threading, time
import holdfast
from holdfast import Runtime, on_signal, watch_signals
from holdfast.events import SigTermEvent, SigIntEvent, SignalEvent

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def idle():
    while True:
        time.sleep(0.02)  # wakes by itself: how a signal wakes a thread that does not is tested apart

runtime = Runtime()
bus = runtime.event_bus
"""


class Program:
    """A Python program that is sent signals; what it says line by line, and how it ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if said != f"{line}\n":
            self.process.kill()
            _, errors = self.process.communicate()
            pytest.fail(f"expected {line!r}, it said {said!r}\n{errors}")

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def ended(self, timeout: float = 25.0) -> tuple[int, str]:
        """Its exit code (minus the signal that ended it) and what else it said."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        late = threading.Timer(timeout, self.process.kill)
        late.start()
        # not communicate(): that reads the pipe itself, and what readline() has read ahead would be lost
        rest, errors = self.process.stdout.read(), self.process.stderr.read()
        code = self.process.wait()
        if not late.is_alive():
            pytest.fail(f"it did not end; it said {rest!r}\n{errors}")
        late.cancel()
        late.join()
        return code, rest


@contextmanager
def program(source: str) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:
        try:
            yield Program(process)
        finally:
            process.kill()
