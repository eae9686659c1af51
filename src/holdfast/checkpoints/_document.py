"""Checkpoint documents: one JSON text that holds all a checkpoint stands on.

Its head comes first and each row has a line of its own, so that people, `grep` and a list of many files can read it. The last
line is a checksum of everything before it; whoever edits a document by hand removes that line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import astuple, replace

from holdfast.errors import CorruptStoreError, StorageError
from holdfast.ports import BranchInfo, Mark, Row, RunInfo, Snapshot

FORMAT = 1
MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By number: what turns a document of that format into one of the next."""

HEAD_LINES = 5  # the brace, then the fields of `Head`
CHECKSUM = b'"sha256": "'
_LARGEST = 2**57  # numbers that every store and every calendar can hold
_PAYLOAD, _DELTA = Row.__struct_fields__.index("payload"), Row.__struct_fields__.index("delta")


class RunHead(Struct, frozen=True):
    """A run, but for its definition and who holds it."""

    root_run_id: str
    kind: str
    name: str
    status: str
    incarnation: int
    fingerprint: str
    created_us: int
    updated_us: int


class Head(Struct, frozen=True):
    """The first lines of a document: enough for a list."""

    holdfast_checkpoint: int
    checkpoint: Mark
    run: RunHead
    branches: tuple[BranchInfo, ...]


class _Snapshot(Struct, frozen=True, omit_defaults=True):
    branch: str
    seq: int
    data: Raw | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET
    """instead of `data`, if that is no JSON"""


class _Row(Struct, frozen=True, omit_defaults=True):
    """A `Row` whose payload and delta are seen as what they are: JSON."""

    seq: int
    type: str
    event_id: str
    at_us: int
    run_id: str
    payload: Raw
    delta: Raw | UnsetType = UNSET
    parent_event_id: str | None = None
    triggered_by_event_id: str | None = None
    started_event_id: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    source_name: str | None = None
    task_id: str | None = None
    task_name: str | None = None
    agent_id: str | None = None
    agent_role: str | None = None


class _Text(Head, frozen=True):
    """A document as it is written."""

    definition: Raw
    snapshot: _Snapshot | None
    rows: tuple[_Row, ...]
    blobs: dict[str, bytes]


class _Format(Struct, frozen=True):
    holdfast_checkpoint: int


class Part(Struct, frozen=True):
    """What a document has of one branch: the rows with `branch.fork_seq < seq <= upto`."""

    branch: BranchInfo
    upto: int


class Document(Struct, frozen=True):
    """A checkpoint and all it stands on."""

    mark: Mark
    info: RunInfo
    branches: tuple[BranchInfo, ...]
    """from `main` to the mark's; each left the one before it, none before that one began; `head`: the last position told here"""
    rows: tuple[Row, ...]
    """without a gap up to the mark; from 1, unless the first ones were pruned"""
    blobs: dict[str, bytes]
    snapshot: Snapshot | None = None
    snapshot_branch: str = ""

    @property
    def first(self) -> int:
        """The first position that has a row here."""
        return self.mark.seq - len(self.rows) + 1

    @property
    def head(self) -> Head:
        run = RunHead(*(getattr(self.info, name) for name in RunHead.__struct_fields__))
        return Head(FORMAT, self.mark, run, self.branches)

    def parts(self) -> Iterator[Part]:
        ends = [branch.fork_seq for branch in self.branches[1:]] + [self.mark.seq]
        return map(Part, self.branches, ends)

    def on_branch(self, name: str, now_us: int) -> Document:
        """The same position, as the beginning of another branch. Raises StorageError if that is one it stands on."""
        if name in {branch.name for branch in self.branches}:
            raise StorageError(
                f"checkpoint {self.mark.id} stands on branch {name!r}; choose another name for the new one"
            )
        branch = BranchInfo(name, self.mark.branch, self.mark.seq, self.mark.seq, now_us)
        return replace(self, mark=replace(self.mark, branch=name), branches=(*self.branches, branch))


def digest_of(value: bytes) -> str:
    """The name of a large value: the hash of its content."""
    return hashlib.sha256(value).hexdigest()


# -- writing -------------------------------------------------------------------------------------------------------------------


def encode_document(document: Document) -> bytes:
    """Raises StorageError for a payload, delta or definition that is not JSON."""
    encode = msgspec.json.encode
    fields = {
        **{name: encode(getattr(document.head, name)) for name in Head.__struct_fields__},
        "definition": encode(_raw(document.info.definition, "the definition")),
        "snapshot": encode(_snapshot(document)),
        "rows": b"[%b\n]" % b",".join(b"\n" + encode(_to_text(row)) for row in document.rows),
        "blobs": b"{%b\n}" % b",".join(map(_blob_line, document.blobs.items())),
    }
    text = b"{\n" + b"".join(b'"%b": %b,\n' % (name.encode(), value) for name, value in fields.items())
    return b'%b%b%b"\n}\n' % (text, CHECKSUM, hashlib.sha256(text).hexdigest().encode())


def _blob_line(item: tuple[str, bytes]) -> bytes:
    return b"\n" + msgspec.json.encode({item[0]: item[1]})[1:-1]


def _to_text(row: Row) -> _Row:
    values = [*astuple(row)[:-1], *astuple(row.origin)]
    values[_PAYLOAD] = _raw(row.payload, f"the payload of row {row.seq}")
    values[_DELTA] = UNSET if row.delta is None else _raw(row.delta, f"the delta of row {row.seq}")
    return _Row(*values)


def _raw(data: bytes, what: str) -> Raw:
    if not _is_json(data):
        raise StorageError(f"{what} is not JSON, so it cannot be part of a checkpoint document; the journal is damaged")
    return Raw(data)


def _is_json(data: bytes) -> bool:
    """Looked at one by one: a payload that ends early could otherwise pass for other fields."""
    try:
        data.decode()
        msgspec.json.decode(data, type=Raw)
    except ValueError:
        return False
    return True


def _snapshot(document: Document) -> _Snapshot | None:
    if document.snapshot is None:
        return None
    seq, data = document.snapshot.seq, document.snapshot.data
    if _is_json(data):
        return _Snapshot(document.snapshot_branch, seq, data=Raw(data))
    return _Snapshot(document.snapshot_branch, seq, base64=data)


# -- reading -------------------------------------------------------------------------------------------------------------------


def decode_head(lines: bytes) -> Head | None:
    """A document's head from its first HEAD_LINES as we write them; None if they are not."""
    try:
        head = msgspec.json.decode(lines.rstrip().removesuffix(b",") + b"}", type=Head)
    except ValueError:
        return None
    return head if head.holdfast_checkpoint == FORMAT and _fits(head.checkpoint, head.run, *head.branches) else None


def decode_document(data: bytes) -> Document:
    """Read a document of this or an earlier format, and check it through. Imports nothing it names.

    Raises CorruptStoreError for a damaged one, StorageError for one that is none or is too new.
    """
    text = _decoded(_migrated(data))
    _check_text(text)
    info = msgspec.convert(text.run, RunInfo, from_attributes=True)
    document = Document(
        text.checkpoint,
        replace(info, definition=bytes(text.definition)),
        text.branches,
        tuple(map(_from_text, text.rows)),
        text.blobs,
        *_snapshot_of(text.snapshot),
    )
    _check_whole(document)
    return document


def _migrated(data: bytes) -> bytes:
    number = _format_of(data)
    _check_sum(data)
    if number == FORMAT:
        return data
    plain = msgspec.json.decode(data)
    for step in range(number, FORMAT):
        plain = MIGRATIONS[step](plain)
    return msgspec.json.encode(plain)


def _format_of(data: bytes) -> int:
    try:
        data.decode()
        number = msgspec.json.decode(data, type=_Format).holdfast_checkpoint
    except msgspec.ValidationError as error:
        raise _foreign(f"it has no format number ({error})") from error
    except ValueError as error:
        if b'"holdfast_checkpoint"' in data[:100]:
            raise _damaged(f"it ends early, or is no JSON any more ({error})") from error
        raise _foreign(f"it is not JSON ({error})") from error
    if number > FORMAT:
        raise StorageError(
            f"this checkpoint document has format {number}, and this Holdfast reads none above {FORMAT}; use a newer Holdfast"
        )
    if number < min(MIGRATIONS, default=FORMAT):
        raise _foreign(f"there never was a format {number}")
    return number


def _check_sum(data: bytes) -> None:
    """The checksum is of the bytes before its own line. A document without that line was edited on purpose."""
    at = data.rfind(CHECKSUM)
    if at < 0:
        return
    end = at + len(CHECKSUM)
    if data[end : end + 64] != hashlib.sha256(data[:at]).hexdigest().encode():
        raise _damaged('it does not match its checksum; if it was changed on purpose, remove the last line, "sha256"')


def _decoded(data: bytes) -> _Text:
    try:
        return msgspec.json.decode(data, type=_Text)
    except msgspec.ValidationError as error:
        raise _damaged(str(error)) from error


def _check_text(text: _Text) -> None:
    if not (_fits(text.checkpoint, text.run, *text.branches, *text.rows) and text.run.root_run_id):
        raise _damaged("it has a number or a text that no store can hold")
    for digest, value in text.blobs.items():
        if digest_of(value) != digest:
            raise _damaged(f"the value {digest} does not have the content that its hash says")


def _fits(*parts: Struct) -> bool:
    for part in parts:
        for value in astuple(part):
            kind = type(value)
            if (kind is str and "\0" in value) or (kind is int and not 0 <= value < _LARGEST):
                return False
    return True


def _from_text(row: _Row) -> Row:
    values = list(astuple(row))
    values[_PAYLOAD] = bytes(row.payload)
    values[_DELTA] = None if row.delta is UNSET else bytes(row.delta)
    return Row.of(values)


def _snapshot_of(text: _Snapshot | None) -> tuple[Snapshot | None, str]:
    if text is None:
        return None, ""
    data = bytes(text.data) if text.data is not UNSET else text.base64
    if data is UNSET:
        raise _damaged("its snapshot is empty")
    return Snapshot(text.seq, data), text.branch


def _check_whole(document: Document) -> None:
    mark, snapshot = document.mark, document.snapshot
    names = [branch.name for branch in document.branches]
    if mark.root_run_id != document.info.root_run_id or names[-1:] != [mark.branch]:
        raise _damaged("its checkpoint is of another run or branch")
    if [branch.parent for branch in document.branches] != [None, *names[:-1]] or len({*names}) < len(names):
        raise _damaged("its branches do not follow from one another")
    bounds = [0, *(branch.fork_seq for branch in document.branches[1:]), mark.seq]
    if bounds != sorted(bounds) or names[0] != "main" or document.branches[0].fork_seq:
        raise _damaged("its branches leave one another where they cannot")
    if [row.seq for row in document.rows] != list(range(document.first, mark.seq + 1)):
        raise _damaged("rows are missing")
    if snapshot is not None and not any(
        part.branch.name == document.snapshot_branch and part.branch.fork_seq <= snapshot.seq <= part.upto
        for part in document.parts()
    ):
        raise _damaged("its snapshot is not on the way to the checkpoint")
    if document.first > 1 and (snapshot is None or snapshot.seq < document.first - 1):
        raise _damaged("rows are missing at its beginning")


def _damaged(why: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"this checkpoint document is damaged: {why}. Nothing was changed. Use another copy of it, or export it again."
    )


def _foreign(why: str) -> StorageError:
    return StorageError(
        f"this is no checkpoint document: {why}. `export_checkpoint` and `CheckpointProvider.read` make one."
    )
