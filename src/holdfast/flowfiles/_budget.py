"""How much work an expression may do."""

from __future__ import annotations


class TooMuchWorkError(Exception):
    """The budget is used up. Never leaves this package: it becomes an ExpressionError."""


class Budget:
    """Counts work down, so that no expression runs for long whatever it is given."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Raises TooMuchWorkError when there is not so much left."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWorkError
