"""Agents that are known by name: those we know how to install, and those a project's `holdfast.toml` adds."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.acp._spec import AgentSpec
from holdfast.errors import ConfigurationError
from holdfast.home import find_home
from holdfast.resources import Command

FILE = "holdfast.toml"


class KnownAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that can be asked for by name."""

    command: tuple[str, ...]
    """what to run; it is looked for in PATH"""
    title: str = ""
    install: str = ""
    """how to install it, as a command"""
    env: dict[str, str] = {}
    """added to the environment; no place for secrets, which are inherited"""
    cwd: str | None = None
    sign_in: str = ""
    terminals: bool = False
    handshake_timeout: float = 60.0
    name: str = ""
    source: str = "built in"
    """`built in`, or the file that names it"""

    @property
    def is_installed(self) -> bool:
        """Whether its program is there."""
        return shutil.which(self.command[0]) is not None

    def spec(self) -> AgentSpec:
        """What to ask an `AgentManager` for."""
        env = {**os.environ, **self.env} if self.env else None
        return AgentSpec(
            Command(self.command, env, self.cwd),
            self.name,
            terminals=self.terminals,
            sign_in=self.sign_in,
            handshake_timeout=self.handshake_timeout,
        )


def _npm(title: str, package: str, *command: str) -> KnownAgent:
    return KnownAgent(command, title, f"npm install --global {package}")


_BUILT_IN = {
    "claude": _npm("Claude Code", "@agentclientprotocol/claude-agent-acp", "claude-agent-acp"),
    "codex": _npm("Codex", "@zed-industries/codex-acp", "codex-acp"),
    "demo": KnownAgent(
        (sys.executable, "-m", "holdfast.acp.demo"), "Demonstration: does what its prompt says, without a model"
    ),
    "gemini": _npm("Gemini CLI", "@google/gemini-cli", "gemini", "--acp"),
    "opencode": _npm("OpenCode", "opencode-ai", "opencode", "acp"),
    "qwen": _npm("Qwen Code", "@qwen-code/qwen-code", "qwen", "--acp"),
}


def known_agents(home: str | os.PathLike[str] | None = None) -> dict[str, KnownAgent]:
    """Every agent that has a name, by name; one in the project's file stands in for ours of the same name.

    The file is `holdfast.toml` in the project's `.holdfast/`, or in `home`:

        [agents.mine]
        command = ["node", "my-agent.js", "--acp"]

    Raises ConfigurationError if it cannot be read, naming what is wrong.
    """
    found = Path(home) if home is not None else find_home()
    agents = {**_BUILT_IN, **(_configured(found / FILE) if found is not None else {})}
    return {name: replace(agents[name], name=name) for name in sorted(agents)}


def find_agent(name: str, home: str | os.PathLike[str] | None = None) -> KnownAgent:
    """An agent by its name. Raises ConfigurationError, listing the names, if there is none."""
    agents = known_agents(home)
    if name not in agents:
        raise ConfigurationError(
            f"there is no agent {name!r}; known are {', '.join(agents)}; name others in {FILE}, as [agents.{name}]"
        )
    return agents[name]


def _configured(path: Path) -> dict[str, KnownAgent]:
    try:
        listed: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("agents", {})
        agents = msgspec.convert(listed, dict[str, KnownAgent])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"{path}: agents cannot be read from it: {error}; see [agents.NAME] command = […]"
        ) from error
    for name, agent in agents.items():
        if not agent.command:
            raise ConfigurationError(f"{path}: agent {name} has an empty command")
    return {name: replace(agent, source=str(path)) for name, agent in agents.items()}
