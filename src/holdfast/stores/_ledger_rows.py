"""Rows of a ledger as they are stored."""

from __future__ import annotations

import msgspec

from holdfast.errors import CorruptStoreError
from holdfast.ports import LedgerRow


def encode_row(row: LedgerRow) -> bytes:
    return msgspec.json.encode(row)


def decode_row(row_id: str, data: bytes, where: str) -> LedgerRow:
    """Raises CorruptStoreError, saying what to do, if it is no row."""
    try:
        return msgspec.json.decode(data, type=LedgerRow)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptStoreError(
            f"{where}: row {row_id} of the ledger cannot be read ({error}). Nothing was changed. If another version of "
            "Holdfast wrote it, use that one; else end what it names by hand, and delete it from the table `resource`."
        ) from error
