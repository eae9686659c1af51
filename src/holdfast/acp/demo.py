"""A small agent that speaks the Agent Client Protocol: `python -m holdfast.acp.demo`. No key, no network, no model.

It does what its prompt says, line by line, the same every time:

    say TEXT          answer, word by word           tool TITLE        use a tool that does nothing
    think TEXT        think, word by word            ask TITLE         ask for permission, and say the answer
    plan A; B; C      show a plan                    write PATH TEXT   write a file, with permission
    read PATH         read a file and say it         run COMMAND       run a command and say what it writes
    recall            say the prompts before         count N           say the numbers up to N, one by one
    settings          say mode and model             wait              do nothing until it is cancelled
    warn TEXT         write to standard error        fail TEXT         answer with an error
    crash             end, in the middle of it       tools             say the tools it was told to use

Any other line is said back. Sessions can be loaded, resumed, forked and closed; with HOLDFAST_DEMO_SESSIONS set to a folder
they outlive the process.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.acp._peer import INTERNAL, INVALID_PARAMS, NO_METHOD, Peer, RefusedError
from holdfast.errors import AcpError, AcpGoneError
from holdfast.ids import new_id

MODES = ("careful", "bold")
MODELS = ("demo-small", "demo-large")
FOLDER = "HOLDFAST_DEMO_SESSIONS"


class Talk(Struct):
    """A session."""

    id: str
    cwd: str
    prompts: list[str] = []
    mode: str = MODES[0]
    model: str = MODELS[0]
    tools: list[str] | None = None


class DemoAgent:
    """The agent's side of a connection."""

    def __init__(self) -> None:
        self.peer: Peer
        self._talks: dict[str, Talk] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._spoke: set[str] = set()
        """Sessions that have said something in answer to this prompt."""
        self._uses = 0
        self._words = 0

    # -- the protocol ----------------------------------------------------------------------------------------------

    async def asked(self, method: str, params: Any) -> Any:
        answer = _METHODS.get(method)
        if answer is None:
            raise RefusedError(f"no method {method}", NO_METHOD)
        return await answer(self, params)

    def notified(self, method: str, params: Any, size: int) -> Awaitable[None] | None:
        turn = self._turns.get(params.get("sessionId", "")) if method == "session/cancel" else None
        if turn is not None:
            turn.cancel()
        return None

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        session: dict[str, Any] = {"fork": {}, "resume": {}, "close": {}}
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "holdfast-demo", "version": "1"},
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": session,
                "mcpCapabilities": {"http": True},
            },
            "authMethods": [],
        }

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = Talk(new_id(), params["cwd"], tools=(params.get("_meta") or {}).get("tools"))
        self._keep(talk)
        return {"sessionId": talk.id, **_settings(talk)}

    async def _fork(self, params: dict[str, Any]) -> dict[str, Any]:
        known = self._find(params)
        talk = Talk(new_id(), params["cwd"], [*known.prompts], known.mode, known.model)
        self._keep(talk)
        return {"sessionId": talk.id, **_settings(talk)}

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = self._find(params)
        for prompt in talk.prompts:
            await self._tell(talk, "user_message_chunk", content={"type": "text", "text": prompt})
        return _settings(talk)

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        return _settings(self._find(params))

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = self._talks.pop(self._find(params).id)
        if (turn := self._turns.get(talk.id)) is not None:
            turn.cancel()
        return {}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = self._find(params)
        talk.mode = _one_of(MODES, params["modeId"])
        await self._tell(talk, "current_mode_update", currentModeId=talk.mode)
        return {}

    async def _set_option(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = self._find(params)
        talk.model = _one_of(MODELS, params["value"])
        return {"configOptions": _settings(talk)["configOptions"]}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        talk = self._find(params)
        text = "\n".join(block.get("text", "") for block in params["prompt"])
        before, words = [*talk.prompts], self._words
        talk.prompts.append(text)
        self._spoke.discard(talk.id)
        self._keep(talk)
        turn = self._turns[talk.id] = asyncio.create_task(self._follow(talk, text.splitlines(), before))
        try:
            await asyncio.wait({turn})
        finally:
            turn.cancel()
            self._turns.pop(talk.id, None)
        if turn.cancelled():
            return {"stopReason": "cancelled"}
        turn.result()
        read, said = len(text.split()), self._words - words
        return {
            "stopReason": "end_turn",
            "usage": {"inputTokens": read, "outputTokens": said, "totalTokens": read + said},
        }

    def _find(self, params: dict[str, Any]) -> Talk:
        wanted = str(params.get("sessionId"))
        if wanted not in self._talks and (path := _path(wanted)) is not None and path.exists():
            self._talks[wanted] = msgspec.json.decode(path.read_bytes(), type=Talk)
        if wanted not in self._talks:
            raise RefusedError(f"there is no session {wanted}", INVALID_PARAMS)
        return self._talks[wanted]

    def _keep(self, talk: Talk) -> None:
        self._talks[talk.id] = talk
        if (path := _path(talk.id)) is not None:
            path.write_bytes(msgspec.json.encode(talk))

    # -- doing what the prompt says --------------------------------------------------------------------------------

    async def _follow(self, talk: Talk, lines: list[str], before: list[str]) -> None:
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "recall":
                await self._say(talk, " | ".join(before))
            elif word in _WORDS:
                await _WORDS[word](self, talk, rest)
            elif line.strip():
                await self._say(talk, f"You said: {line.strip()}")

    async def _tell(self, talk: Talk, kind: str, /, **update: Any) -> None:
        await self.peer.notify("session/update", {"sessionId": talk.id, "update": {"sessionUpdate": kind, **update}})
        await asyncio.sleep(0)  # so that a cancel is heard in the middle of a long speech

    async def _stream(self, talk: Talk, kind: str, text: str) -> None:
        for number, word in enumerate(text.split(" ")):
            self._words += 1
            content = {"type": "text", "text": f" {word}" if number else word}
            await self._tell(talk, kind, content=content)

    async def _say(self, talk: Talk, text: str) -> None:
        if talk.id in self._spoke:
            await self._tell(talk, "agent_message_chunk", content={"type": "text", "text": "\n"})
        self._spoke.add(talk.id)
        await self._stream(talk, "agent_message_chunk", text)

    async def _think(self, talk: Talk, text: str) -> None:
        await self._stream(talk, "agent_thought_chunk", text)

    async def _plan(self, talk: Talk, text: str) -> None:
        entries = [{"content": part.strip(), "priority": "medium", "status": "pending"} for part in text.split(";")]
        await self._tell(talk, "plan", entries=entries)

    async def _settings_words(self, talk: Talk, text: str) -> None:
        await self._say(talk, f"{talk.mode} {talk.model}")

    async def _tool_words(self, talk: Talk, text: str) -> None:
        await self._say(talk, " ".join(talk.tools) if talk.tools is not None else "any")

    async def _count(self, talk: Talk, text: str) -> None:
        for number in range(1, int(text) + 1):
            await self._tell(talk, "agent_message_chunk", content={"type": "text", "text": f"{number} "})

    async def _wait(self, talk: Talk, text: str) -> None:
        await self._say(talk, "waiting")
        await asyncio.Event().wait()

    async def _warn(self, talk: Talk, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    async def _fail(self, talk: Talk, text: str) -> None:
        raise RefusedError(text or "told to fail", INTERNAL)

    async def _crash(self, talk: Talk, text: str) -> None:
        sys.stderr.write("told to crash\n")
        sys.stderr.flush()
        os._exit(7)

    # -- tools -----------------------------------------------------------------------------------------------------

    async def _begin_use(self, talk: Talk, title: str, kind: str, **given: Any) -> str:
        self._uses += 1
        use = f"use-{self._uses}"
        about = {"title": title, "kind": kind, "status": "pending", "rawInput": given}
        await self._tell(talk, "tool_call", toolCallId=use, **about)
        return use

    async def _end_use(self, talk: Talk, use: str, output: str, *, status: str = "completed") -> None:
        content = [{"type": "content", "content": {"type": "text", "text": output}}]
        await self._tell(talk, "tool_call_update", toolCallId=use, status=status, content=content)

    async def _permitted(self, talk: Talk, use: str, title: str, kind: str) -> bool:
        options = [
            {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        tool_call = {"toolCallId": use, "title": title, "kind": kind, "status": "pending"}
        asked = {"sessionId": talk.id, "toolCall": tool_call, "options": options}
        answer = await self.peer.request("session/request_permission", asked)
        return answer["outcome"].get("optionId") in ("yes", "always")

    async def _tool(self, talk: Talk, title: str) -> None:
        await self._end_use(talk, await self._begin_use(talk, title or "nothing", "other"), "done")

    async def _ask(self, talk: Talk, title: str) -> None:
        use = await self._begin_use(talk, title, "other")
        permitted = await self._permitted(talk, use, title, "other")
        await self._end_use(talk, use, "asked")
        await self._say(talk, "allowed" if permitted else "denied")

    async def _write(self, talk: Talk, text: str) -> None:
        name, _, content = text.partition(" ")
        path, title = os.path.join(talk.cwd, name), f"write {name}"
        use = await self._begin_use(talk, title, "edit", path=path)
        if not await self._permitted(talk, use, title, "edit"):
            await self._end_use(talk, use, "not permitted", status="failed")
            return
        await self._request(talk, use, "fs/write_text_file", path=path, content=content + "\n")

    async def _read(self, talk: Talk, name: str) -> None:
        path = os.path.join(talk.cwd, name)
        use = await self._begin_use(talk, f"read {name}", "read", path=path)
        answer = await self._request(talk, use, "fs/read_text_file", path=path)
        if answer is not None:
            await self._say(talk, answer["content"].strip())

    async def _run(self, talk: Talk, command: str) -> None:
        use = await self._begin_use(talk, command, "execute", command=command)
        made = await self._request(talk, use, "terminal/create", command="/bin/sh", args=["-c", command])
        if made is None:
            return
        ask = {"sessionId": talk.id, "terminalId": made["terminalId"]}
        ended = await self.peer.request("terminal/wait_for_exit", ask)
        output = (await self.peer.request("terminal/output", ask))["output"]
        await self.peer.request("terminal/release", ask)
        await self._say(talk, f"{output.strip()} ({ended.get('exitCode', ended.get('signal'))})")

    async def _request(self, talk: Talk, use: str, method: str, **params: Any) -> dict[str, Any] | None:
        """Have the client do something; say so if it will not."""
        try:
            answer = await self.peer.request(method, {"sessionId": talk.id, **params})
        except AcpError as error:
            await self._end_use(talk, use, str(error), status="failed")
            await self._say(talk, f"refused: {error}")
            return None
        await self._end_use(talk, use, "done")
        return dict(answer or {})


_METHODS: dict[str, Callable[[DemoAgent, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "initialize": DemoAgent._initialize,
    "session/new": DemoAgent._new,
    "session/load": DemoAgent._load,
    "session/resume": DemoAgent._resume,
    "session/fork": DemoAgent._fork,
    "session/close": DemoAgent._close,
    "session/set_mode": DemoAgent._set_mode,
    "session/set_config_option": DemoAgent._set_option,
    "session/prompt": DemoAgent._prompt,
}
_WORDS: dict[str, Callable[[DemoAgent, Talk, str], Awaitable[None]]] = {
    "ask": DemoAgent._ask,
    "count": DemoAgent._count,
    "crash": DemoAgent._crash,
    "fail": DemoAgent._fail,
    "plan": DemoAgent._plan,
    "read": DemoAgent._read,
    "run": DemoAgent._run,
    "say": DemoAgent._say,
    "settings": DemoAgent._settings_words,
    "tools": DemoAgent._tool_words,
    "think": DemoAgent._think,
    "tool": DemoAgent._tool,
    "wait": DemoAgent._wait,
    "warn": DemoAgent._warn,
    "write": DemoAgent._write,
}


def _settings(talk: Talk) -> dict[str, Any]:
    modes = {"currentModeId": talk.mode, "availableModes": [{"id": mode, "name": mode.title()} for mode in MODES]}
    options = [{"value": model, "name": model} for model in MODELS]
    model = {
        "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": talk.model, "options": options,
    }  # fmt: skip
    return {"modes": modes, "configOptions": [model]}


def _one_of(known: tuple[str, ...], value: str) -> str:
    if value not in known:
        raise RefusedError(f"{value!r} is none of {', '.join(known)}", INVALID_PARAMS)
    return value


def _path(talk_id: str) -> Path | None:
    folder = os.environ.get(FOLDER)
    return Path(folder) / f"{Path(talk_id).name}.json" if folder else None


def _hung_up() -> AcpError:
    return AcpGoneError("the client hung up")


async def serve() -> None:
    """Talk over standard input and output until the input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), sys.stdin)
    made = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop), sys.stdout
    )
    writer = asyncio.StreamWriter(*made, None, loop)

    async def read() -> bytes:
        return await reader.read(65536)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    agent = DemoAgent()
    agent.peer = Peer(read, write, agent, _hung_up)
    await agent.peer.serve()
    await agent.peer.stop()


def main() -> None:
    """Serve whoever is at the other end of the pipes. Leaves with a sentence if there is nobody."""
    ends = [os.fstat(stream.fileno()).st_mode for stream in (sys.stdin, sys.stdout)]
    if not all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in ends):
        raise SystemExit(f"{__doc__}\nIt speaks with a program, over pipes: holdfast agents check demo")
    asyncio.run(serve())


if __name__ == "__main__":
    main()
