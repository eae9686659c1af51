"""Modes and models: agents offer them in one of two ways, an older one and as options of the session."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.errors import AcpUnsupportedError


class SettingCall(Struct, frozen=True):
    """What to send to change a setting."""

    method: str
    params: dict[str, Any]


class Setting(Struct, frozen=True):
    """Something about a session that can be chosen."""

    name: str
    values: list[str]
    method: str = ""
    key: str = ""
    """which parameter takes the value"""
    fixed: dict[str, Any] = {}

    def call(self, value: str, session_id: str, agent: str) -> SettingCall:
        """What to send to choose a value. Raises AcpUnsupportedError if it is not offered."""
        if value not in self.values:
            offered = f"it offers {', '.join(self.values)}" if self.values else f"it lets nobody choose a {self.name}"
            raise AcpUnsupportedError(f"{agent} has no {self.name} {value!r}; {offered}", agent=agent)
        return SettingCall(self.method, {"sessionId": session_id, **self.fixed, self.key: value})


def mode_setting(opened: dict[str, Any]) -> Setting:
    """How to choose the mode of a session, by what the agent said when it opened."""
    if (listed := _ids(opened.get("modes"), "availableModes", "id")) is not None:
        return Setting("mode", listed, "session/set_mode", "modeId")
    return _option("mode", opened)


def model_setting(opened: dict[str, Any]) -> Setting:
    """How to choose the model."""
    found = _option("model", opened)
    if found.values:
        return found
    listed = _ids(opened.get("models"), "availableModels", "modelId")
    return Setting("model", listed, "session/set_model", "modelId") if listed is not None else found


def _ids(group: Any, several: str, key: str) -> list[str] | None:
    if not isinstance(group, dict) or not isinstance(group.get(several), list):
        return None
    return [str(one[key]) for one in group[several] if isinstance(one, dict) and key in one]


def _option(category: str, opened: dict[str, Any]) -> Setting:
    for option in opened.get("configOptions") or ():
        if option.get("category") == category and isinstance(option.get("options"), list):
            fixed = {"configId": option["id"]}
            return Setting(category, list(_values(option["options"])), "session/set_config_option", "value", fixed)
    return Setting(category, [])


def _values(options: list[dict[str, Any]]) -> list[str]:
    """The values of options, which may be in groups."""
    flat = [inner for option in options for inner in option.get("options", (option,))]
    return [str(option["value"]) for option in flat if "value" in option]
