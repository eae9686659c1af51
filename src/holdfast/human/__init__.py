"""People in the loop: who is asked, and how."""

from __future__ import annotations

from holdfast.human._console import ConsoleProvider
from holdfast.human._feedback import HumanFeedbackResult
from holdfast.human._later import LaterProvider

__all__ = ["ConsoleProvider", "HumanFeedbackResult", "LaterProvider"]
