from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.hooks.support import Post


@pytest.fixture
async def make_post(tmp_path: Path) -> AsyncIterator[Callable[[str], Post]]:
    """Makes a project with such a `holdfast.toml`."""
    async with AsyncExitStack() as stack:

        def make(toml: str) -> Post:
            made = Post(tmp_path, toml)
            stack.push_async_callback(made.store.aclose)
            return made

        yield make
