"""What a log has taken down, and its store does not have yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from holdfast.ports import JournalStore, Row


class Unstored(Struct, frozen=True):
    """That, at one moment. Some of it may have been stored since."""

    rows: list[Row]
    blobs: dict[str, bytes]

    def reader(self, store: JournalStore) -> Callable[[str], Awaitable[bytes]]:
        """What reads the blobs that these rows and those in the store name."""

        async def blob(digest: str) -> bytes:
            return self.blobs[digest] if digest in self.blobs else await store.blob(digest)

        return blob


NOTHING_UNSTORED = Unstored([], {})
