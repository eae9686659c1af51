"""stepwise's `decorators:`, rewritten as the keys they stand for, with their places kept."""

from __future__ import annotations

from holdfast.flowfiles._nodes import Mapping, Node, Scalar, Sequence


def undecorated(node: Mapping) -> Mapping:
    """A step whose decorators were added as `retry`, `timeout` and `fallback`, unless it has those itself."""
    listed = node.get("decorators")
    if not isinstance(listed, Sequence):
        return node
    entries = {key.text: (key, value) for key, value in node.entries}
    for decorator in listed.items:
        if isinstance(decorator, Mapping) and (added := _option(decorator)):
            entries.setdefault(added[0].text, added)
    return Mapping(node.at, tuple(entries.values()))


def _option(decorator: Mapping) -> tuple[Scalar, Node] | None:
    kind, config = decorator.get("type"), decorator.get("config")
    if not isinstance(kind, Scalar):
        return None
    said = config if isinstance(config, Mapping) else _beside(decorator)
    value: Node | None = None
    if kind.text == "retry":
        value = said
    elif kind.text == "timeout":
        value = _time(said)
    elif kind.text == "fallback":
        value = _fallback(said)
    return (Scalar(kind.at, kind.text, is_plain=True), value) if value else None


def _beside(decorator: Mapping) -> Mapping:
    return Mapping(decorator.at, tuple(entry for entry in decorator.entries if entry[0].text not in ("type", "config")))


def _time(said: Mapping) -> Node | None:
    for unit in ("seconds", "minutes"):
        amount = said.get(unit)
        if isinstance(amount, Scalar):
            return Scalar(amount.at, f"{amount.text}{unit[0]}", is_plain=True)
    return None


def _fallback(said: Mapping) -> Node | None:
    reference = said.get("fallback_ref")
    if not isinstance(reference, Mapping):
        return None
    kind, config = reference.get("type"), reference.get("config")
    entries = config.entries if isinstance(config, Mapping) else ()
    if not isinstance(kind, Scalar):
        return reference
    if kind.text == "script":
        renamed = ((Scalar(k.at, "run" if k.text == "command" else k.text, k.is_plain), v) for k, v in entries)
        return Mapping(reference.at, tuple(renamed))
    return Mapping(reference.at, ((Scalar(kind.at, "executor", is_plain=True), kind), *entries))
