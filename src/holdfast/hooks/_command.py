"""A command that is told what happened: its tree under a keeper, bounded in time, nothing of it left."""

from __future__ import annotations

import asyncio

from holdfast.errors import DeliveryError, ResourceError
from holdfast.resources import Command, Keeper, KeptProcess

TAIL = 500
"""Characters of standard error that are kept of one that failed."""


async def run_hook(keeper: Keeper, command: Command, message: bytes, *, seconds: float) -> None:
    """Run a command with a message on its standard input; what it writes to standard output is dropped.

    Raises DeliveryError if it cannot be started, fails, or does not end in time; however it goes, nothing of it is left.
    """
    name = command.argv[0]
    try:
        process = await keeper.spawn(command)
    except ResourceError as error:
        raise DeliveryError(str(error)) from error
    try:
        async with asyncio.timeout(seconds):
            code = await _talk(process, message)
    except TimeoutError as error:
        raise DeliveryError(f"{name} did not end within {seconds:g} s, and was ended") from error
    finally:
        await _end(process)
    if code != 0:
        said = process.stderr_tail().decode(errors="replace").strip()[-TAIL:]
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise DeliveryError(f"{name} {how}" + (f": {said}" if said else ""))


async def _talk(process: KeptProcess, message: bytes) -> int:
    talking = [asyncio.ensure_future(_feed(process, message)), asyncio.ensure_future(_drain(process))]
    try:
        return await process.wait()
    finally:
        for task in talking:
            task.cancel()
        await asyncio.wait(talking)


async def _feed(process: KeptProcess, message: bytes) -> None:
    try:
        await process.write(message)
    except ConnectionError:
        return  # it does not want to know
    process.close_stdin()


async def _drain(process: KeptProcess) -> None:
    while await process.read():
        continue


async def _end(process: KeptProcess) -> None:
    try:
        await asyncio.shield(process.end())
    except ResourceError as error:
        raise DeliveryError(str(error)) from error
