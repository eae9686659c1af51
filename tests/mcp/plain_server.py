"""An MCP server in plain Python, without the SDK: it starts in a blink. Its argument says how it misbehaves."""

import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
greeted: list[str] = []
TOOLS = ("add", "pid", "environment", "crash", "flood", "junk", "hold", "stop_talking", "chatter")


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: dict) -> object:  # type: ignore[type-arg]
    if HOW == "modern":
        return modern(request)
    if HOW == "strict" and not greeted and request["method"] != "initialize":
        os._exit(4)
    greeted.append(request["method"])
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    if request["method"] == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if request["method"] == "tools/call":
        return {"content": [{"type": "text", "text": str(use(**request["params"]))}]}
    return None


def modern(request: dict) -> object:  # type: ignore[type-arg]
    """Without the greeting of old."""
    if request["method"] == "server/discover":
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if request["method"] == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    if request["method"] == "tools/call":
        text = str(use(**request["params"]))
        return {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return None


def use(name: str, arguments: dict, **_: object) -> object:  # type: ignore[type-arg]
    if name == "add":
        return arguments["a"] + arguments["b"]
    if name == "pid":
        return os.getpid()
    if name == "environment":
        return json.dumps(dict(os.environ))
    if name == "chatter":
        os.write(1, b"working on it\n" * 600)
    if name == "hold":
        time.sleep(1000)
    misbehave(name)
    return ""


def misbehave(how: str) -> None:
    if how == "crash":
        sys.stderr.write("out of cheese\n")
        sys.stderr.flush()
        os._exit(3)
    if how == "hang":
        time.sleep(1000)
    if how == "flood":  # one line without an end
        while True:
            os.write(1, b"x" * 65536)
    if how == "junk":
        while True:
            os.write(1, b"y\n" * 30000)
    if how == "stop_talking":
        os.close(1)
        time.sleep(1000)
    if how == "chatty":
        subprocess.Popen(["yes", "to standard error"], stdout=sys.stderr)
        sys.stdout.write("starting up, please wait\n\n")
    if how == "clingy":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["setsid", "sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


misbehave(HOW)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message)
    if result is None:
        say(id=message["id"], error={"code": -32601, "message": "Method not found"})
    else:
        say(id=message["id"], result=result)
if HOW == "clingy":
    time.sleep(1000)
elif len(sys.argv) > 2:
    with open(sys.argv[2], "w") as note:
        note.write("left by itself")
