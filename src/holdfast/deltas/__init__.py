"""State deltas: what a step changed, how it is stored, how it is replayed, how overlapping steps are merged.

**Plain state.** A state is a mapping of field names to values; its *plain* form, made by `plain`, holds only None,
booleans, numbers, strings, bytes, dates and times, decimals, UUIDs, lists, tuples, sets, frozensets and dicts. These come
back from storage exactly, 1 apart from True and 1.0, sets as sets, dicts with their keys' own types and their order.
Models, dataclasses and structs become dicts of their fields, an enum its value, a path its text, a zone its offset,
a subclass of a container that container: validation by the state's type makes them what they were. A secret (a `SecretStr`,
a field marked `sensitive`) is stored as a `Withheld`. The order of fields says nothing.

**Refused**, with the path (`$.items[1].client: cannot store a Socket`): opaque or mutable leaves (arrays, bytearrays, any
object without a stored form), containers that contain themselves, more than 100 levels, NaN as a key or in a set, and two
keys (or members of a set) with one plain form.

**Values are values**: the plain states that go in and come out are shared, not copied. Do not change them in place.
"""

from __future__ import annotations

from holdfast.deltas._apply import apply, fold
from holdfast.deltas._codec import decode_plain, encode_plain
from holdfast.deltas._delta import Add, Append, Delete, Delta, Discard, Operation, Set, Splice
from holdfast.deltas._fields import fields_of, reader_of
from holdfast.deltas._growing import append_only, growing_fields
from holdfast.deltas._merge import Conflict, Merge, Merged, combine
from holdfast.deltas._paths import Path, locate
from holdfast.deltas._reducers import Reducer, last
from holdfast.deltas._secrets import WITHHELD, Withheld, live_value, reveal, sensitive, unveil, withheld_in
from holdfast.deltas._shadow import Shadow, plain

__all__ = [
    "WITHHELD",
    "Add",
    "Append",
    "Conflict",
    "Delete",
    "Delta",
    "Discard",
    "Merge",
    "Merged",
    "Operation",
    "Path",
    "Reducer",
    "Set",
    "Shadow",
    "Splice",
    "Withheld",
    "append_only",
    "apply",
    "combine",
    "decode_plain",
    "encode_plain",
    "fields_of",
    "fold",
    "growing_fields",
    "last",
    "live_value",
    "locate",
    "plain",
    "reader_of",
    "reveal",
    "sensitive",
    "unveil",
    "withheld_in",
]
