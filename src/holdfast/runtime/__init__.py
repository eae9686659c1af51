"""The composition root: a `Runtime` puts the parts together and holds every run that lives."""

from __future__ import annotations

from holdfast.runtime._runtime import Runtime, default_runtime

__all__ = ["Runtime", "default_runtime"]
