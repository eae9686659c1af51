"""`Sender`: one try to tell one target."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.clock import Clock, SystemClock
from holdfast.errors import ConfigurationError, DeliveryError, DeliveryRefusedError, UsageError
from holdfast.hooks._addresses import Address, Reach, read_address
from holdfast.hooks._command import run_hook
from holdfast.hooks._post import post
from holdfast.hooks._settings import Hook, HookSettings
from holdfast.hooks._signing import project_key, signed
from holdfast.ports import HOOK, WEBHOOK
from holdfast.resources import Command, Keeper


class Patience(Struct, frozen=True):
    """How long one try may take, in seconds."""

    post: float = 10.0
    command: float = 60.0


class Sender:
    """Tells targets. Close it: it may have a keeper of commands."""

    def __init__(
        self,
        settings: HookSettings,
        home: Path,
        folder: Path,
        *,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._settings, self._home, self._folder = settings, home, folder
        self._clock: Clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._patience = patience or Patience()
        self._ours, self._jobs = Reach(None), Reach(settings.allow)
        self._keeper: Keeper | None = None

    async def send(self, delivery_id: str, target: str, body: bytes) -> None:
        """Raises DeliveryError if the target could not be told, DeliveryRefusedError if it never can be."""
        if target.startswith(WEBHOOK):
            await self._post(self._jobs, target.removeprefix(WEBHOOK), "", delivery_id, body)
            return
        hook = self._hook(target.removeprefix(HOOK))
        if hook.url:
            await self._post(self._ours, hook.url, hook.secret_env, delivery_id, body)
        else:
            await self._run(hook, body)

    def _hook(self, name: str) -> Hook:
        if name not in self._settings.hooks:
            raise DeliveryError(f"there is no hook {name} in holdfast.toml, or was none when this process read it")
        return self._settings.hooks[name]

    async def _post(self, reach: Reach, url: str, secret_env: str, delivery_id: str, body: bytes) -> None:
        try:
            address = read_address(url)
        except UsageError as error:
            raise DeliveryRefusedError(str(error)) from error
        secret = self._secret(secret_env)
        places = await self._places(reach, address)
        headers = signed(secret, delivery_id, body, now=self._clock.time_ns() / 1e9)
        await post(address, places, headers, body, seconds=self._patience.post)

    async def _places(self, reach: Reach, address: Address) -> list[str]:
        try:
            async with asyncio.timeout(self._patience.post):
                return await reach.places(address)
        except TimeoutError as error:
            raise DeliveryError(f"{address.host} was not found within {self._patience.post:g} s") from error

    def _secret(self, variable: str) -> str:
        try:
            secret = self._environ.get(variable, "") if variable else project_key(self._home)
        except ConfigurationError as error:
            raise DeliveryError(str(error)) from error
        if not secret:
            raise DeliveryError(f"nothing is sent unsigned, and {variable} is not set: set it for this process")
        return secret

    async def _run(self, hook: Hook, body: bytes) -> None:
        if self._keeper is None:
            self._keeper = Keeper()
        env = {**self._environ, **_variables(msgspec.json.decode(body))}
        command = Command(hook.command, env, str(self._folder))
        await run_hook(self._keeper, command, body, seconds=self._patience.command)

    async def aclose(self) -> None:
        """Twice is fine."""
        if self._keeper is not None:
            await self._keeper.aclose()
            self._keeper = None


def _variables(told: Mapping[str, Any]) -> dict[str, str]:
    """What happened, as a command finds it in its environment."""
    job = told["job"]
    found = {
        "DELIVERY_ID": told["id"],
        "EVENT": told["event"],
        "JOB_ID": job["id"],
        "JOB_NAME": job["name"],
        "JOB_STATUS": job["status"],
        "JOB_REASON": job["reason"],
        "FLOW": job["flow"],
        "STEP": told.get("step", {}).get("name", ""),
    }
    return {f"HOLDFAST_{name}": str(value).replace("\0", "") for name, value in found.items()}
