"""The composition root: `Runtime`, and the default one of this process."""

from __future__ import annotations

from holdfast.runtime._runtime import Runtime, current_runtime, default_runtime

__all__ = ["Runtime", "current_runtime", "default_runtime"]
