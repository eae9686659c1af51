"""The JSON Schema of flow files, from the same tables that the parser reads with."""

from __future__ import annotations

from typing import Any

from holdfast.flowfiles._format import COMMON, FLOW
from holdfast.flowfiles._kinds import KINDS, StepKind, plugin_kind
from holdfast.flowfiles._plugins import plugin_names
from holdfast.flowfiles._shapes import Record, Schema


def flow_schema(*, plugins: tuple[str, ...] = ()) -> dict[str, Any]:
    """The schema, with the executors of those installed plugins. `# yaml-language-server: $schema=…` makes editors use it."""
    kinds = [*KINDS.values(), *filter(None, map(plugin_kind, plugins))]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast flow file",
        "$ref": "#/$defs/flow",
        "$defs": {
            "flow": FLOW.schema(),
            "common": Record("a step", COMMON).schema(),
            "step": {"anyOf": [{"$ref": f"#/$defs/{kind.name}_step"} for kind in kinds]},
            "fallback": {"anyOf": [{"$ref": f"#/$defs/{kind.name}_fallback"} for kind in kinds]},
            **{f"{kind.name}_step": _named(kind, kind.record.schema()) for kind in kinds},
            **{f"{kind.name}_fallback": _named(kind, kind.fallback.schema()) for kind in kinds},
        },
    }


def installed_schema() -> dict[str, Any]:
    """The schema with every executor that is installed here."""
    return flow_schema(plugins=plugin_names())


def _named(kind: StepKind, schema: Schema) -> Schema:
    """A kind's schema; what all steps have is defined once."""
    properties = {
        name: value if name in kind.options else {"$ref": f"#/$defs/common/properties/{name}"}
        for name, value in schema["properties"].items()
    }
    return {"title": kind.name, **schema, "properties": properties}
