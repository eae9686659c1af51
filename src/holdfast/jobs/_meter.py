"""What a job and its steps have used of models, and what they may use."""

from __future__ import annotations

from holdfast.errors import JobLimitError, JobStepError
from holdfast.flowfiles import Limits
from holdfast.ports import Usage


class JobMeter:
    """Counts for a step or a job, and for everything around it. What has no limit is only counted."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        *,
        used: Usage | None = None,
        outer: JobMeter | None = None,
        is_job: bool = False,
    ) -> None:
        self.name = name
        self.limits = limits
        self.used = used or Usage()
        self._outer = outer
        self._is_job = is_job

    def count(self, used: Usage) -> None:
        """Add what a call used. Raises JobLimitError for a job, JobStepError for a step, that has now used too much."""
        meter: JobMeter | None = self
        while meter is not None:
            meter.used += used
            meter = meter._outer
        self.check()

    def check(self) -> None:
        """Raise if this, or anything around it, may use nothing more; the outermost first: it decides most."""
        if self._outer is not None:
            self._outer.check()
        problem = self._problem()
        if problem:
            kind = JobLimitError if self._is_job else JobStepError
            raise kind(f"{self.name} {problem}", category="limit")

    def _problem(self) -> str:
        cost, tokens = self.limits.max_cost_usd, self.limits.max_tokens
        if cost is not None and self.used.priced_usd > cost:
            return f"has cost ${self.used.priced_usd:.4f}, and may cost ${cost:.4f} (max_cost_usd)"
        if tokens is not None and self.used.total_tokens > tokens:
            return f"has used {self.used.total_tokens} tokens, and may use {tokens} (max_tokens)"
        return ""
