"""An agent that misbehaves as it is told to: by its arguments before the handshake, by its prompts after. Standard library only."""

import json
import os
import signal
import sys
import time
from typing import Any

MARK = {"jsonrpc": "2.0"}
LONG = 1000


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({**MARK, **message}) + "\n")
    sys.stdout.flush()


def update(session: str, kind: str, **fields: Any) -> None:
    told = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
    send(method="session/update", params=told)


def say(session: str, text: str) -> None:
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def detach(seconds: float = LONG) -> None:
    """Leave a daemon behind: forked twice, in a session of its own, deaf to SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.dup2(os.open("/dev/null", os.O_RDWR), 1)
            time.sleep(seconds)
        os._exit(0)
    os.wait()


def child() -> None:
    """An ordinary child, as a tool that an agent calls."""
    if os.fork() == 0:
        time.sleep(LONG)
        os._exit(0)


def before(words: list[str]) -> None:
    """What it does before it answers anything."""
    for word in words:
        if word == "child":
            child()
        elif word == "detach":
            detach()
        elif word == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif word == "hang":
            detach()
            time.sleep(LONG)
        elif word == "exit":
            detach()
            sys.stderr.write("no key: set SOME_KEY\n")
            sys.exit(3)
        elif word.startswith("diary="):
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        elif word == "gibberish":
            sys.stdout.write("Welcome to rogue!\n{not json\n[1, 2]\n\xff\n{}\n" + "[" * 5000 + "\n")
            send(id=4711, result={})
            send(id="x", error={"code": 1})
        elif word == "stderr":
            for number in range(8):
                sys.stderr.write(f"{number}" * 65536)
            sys.stderr.write("\nthe end of it\n")
            sys.stderr.flush()


def initialize(words: list[str]) -> dict[str, Any]:
    version = 99 if "future" in words else 1
    close: dict[str, Any] = {} if "noclose" in words else {"close": {}}
    return {"protocolVersion": version, "agentCapabilities": {"sessionCapabilities": close}}


def main() -> None:
    words = sys.argv[1:]
    before(words)
    last = 0
    while True:
        message = receive()
        method, number, params = message.get("method"), message.get("id"), message.get("params", {})
        if method == "initialize":
            send(id=number, result=initialize(words))
        elif method == "session/new":
            last += "one_id" not in words or not last
            send(id=number, result={"sessionId": f"s{last}"})
        elif method == "session/prompt":
            prompt(number, params["sessionId"], params["prompt"][0]["text"])
        elif method == "session/close":
            for word in words:
                if word.startswith("diary="):
                    with open(word[6:], "a") as diary:
                        diary.write(f"close {params['sessionId']}\n")
            send(id=number, result={})
        elif number is not None and method is not None:
            send(id=number, error={"code": -32601, "message": "no such method"})


def prompt(number: Any, session: str, text: str) -> None:
    word, _, rest = text.partition(" ")
    try:
        PROMPTS[word](session, rest)
    except InterruptedError as error:
        send(id=number, error={"code": -32603, "message": str(error)})
        return
    send(id=number, result={"stopReason": "end_turn"})


def crash(session: str, rest: str) -> None:
    say(session, "about to")
    sys.stderr.write("Traceback: it broke here\n")
    sys.stderr.flush()
    os._exit(9)


def orphan(session: str, rest: str) -> None:
    """Its first process, the wrapper, is killed; it lives on."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(LONG)


def hang_up(session: str, rest: str) -> None:
    os.close(1)
    time.sleep(LONG)


def flood(session: str, rest: str) -> None:
    """Garbage, a line without an end, replies to nobody; and in between what counts."""
    say(session, "one ")
    for _ in range(200):
        os.write(1, b"x" * 65535 + b"\n")
    say(session, "two ")
    for _ in range(1000):
        os.write(1, b"y" * 65536)
    os.write(1, b"\n")
    send(id=10**6, result={})
    say(session, "three")


def huge(session: str, rest: str) -> None:
    """A request, then an answer, that are longer than anybody keeps."""
    body = "z" * (40 * 1024 * 1024)
    send(id="big", method="fs/write_text_file", params={"sessionId": session, "path": "/x", "content": body})
    refused = receive()
    say(session, refused["error"]["message"])


def answer_hugely(session: str, rest: str) -> None:
    body = "z" * (40 * 1024 * 1024)
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {int(rest)}, "result": {{"x": "{body}"}}}}\n')
    sys.stdout.flush()
    time.sleep(LONG)


def strange(session: str, rest: str) -> None:
    update(session, "holograph", depth=3)
    update(session, "agent_message_chunk", content={"type": "image", "data": "", "mimeType": "image/png"})
    update(session, "tool_call_update", toolCallId="t", status="completed")
    update(session, "tool_call", toolCallId="u", title="never ends")
    update(session, "plan", entries=[{"content": "a"}, 7])
    send(method="session/update", params={"sessionId": "nobody", "update": {"sessionUpdate": "plan"}})
    send(method="session/update", params=7)
    send(method="_vendor/news", params={})
    say(session, "still here")


def nasty(session: str, rest: str) -> None:
    """Messages that are JSON, and nothing more."""
    junk = [None, 7, "x", True, [], [1], {}, {"a": [1]}]
    kinds = [
        "agent_message_chunk",
        "agent_thought_chunk",
        "plan",
        "tool_call",
        "tool_call_update",
        "usage_update",
        *junk,
    ]
    fields = ["content", "entries", "toolCallId", "title", "kind", "status", "locations", "rawInput"]
    for value in junk:
        for message in (
            value, {"method": value}, {"method": "session/update", "params": value}, {"id": value, "result": 1},
            {"id": value, "error": value}, {"method": "$/cancel_request", "params": {"requestId": value}},
            {"method": "session/update", "params": {"sessionId": value, "update": {}}},
            {"method": "session/update", "params": {"sessionId": session, "update": value}},
        ):  # fmt: skip
            sys.stdout.write(json.dumps(message) + "\n")
        for kind in kinds:
            for field in fields:
                send(
                    method="session/update",
                    params={"sessionId": session, "update": {"sessionUpdate": kind, field: value}},
                )
    say(session, "survived")


def numbers(session: str, rest: str) -> None:
    for number in range(int(rest)):
        say(session, f"{number} ")


def endless(session: str, rest: str) -> None:
    while True:
        say(session, "x" * 1000)


def ask(session: str, rest: str) -> None:
    """Several permissions at once, answered in any order."""
    options = [
        {"optionId": "a", "name": "Yes", "kind": "allow_once"},
        {"optionId": "r", "name": "No", "kind": "reject_once"},
    ]
    for title in rest.split():
        call = {"toolCallId": title, "title": title, "kind": "execute"}
        send(
            id=title,
            method="session/request_permission",
            params={"sessionId": session, "toolCall": call, "options": options},
        )
    answers: dict[str, str] = {}
    while len(answers) < len(rest.split()):
        message = receive()
        if "result" in message:
            answers[message["id"]] = message["result"]["outcome"].get("optionId", "-")
    say(session, " ".join(f"{title}={answers[title]}" for title in rest.split()))


def sulk(session: str, rest: str) -> None:
    """Stops when it is told to, and calls that an error."""
    say(session, "working")
    while receive().get("method") != "session/cancel":
        pass
    raise InterruptedError("Request was aborted.")


def ignore(session: str, rest: str) -> None:
    """Deaf to everything, and to a cancel too."""
    say(session, "deaf")
    while True:
        receive()


def request(session: str, rest: str) -> None:
    """Ask for something by its raw form, and say what came back."""
    asked = json.loads(rest.replace("SESSION", session))
    send(id=1, **asked)
    answer = receive()
    say(session, answer["error"]["message"] if "error" in answer else json.dumps(answer["result"]))


def many(session: str, rest: str) -> None:
    """More requests at once than anybody answers."""
    for number in range(100):
        send(
            id=f"m{number}",
            method="session/request_permission",
            params={
                "sessionId": session,
                "toolCall": {"toolCallId": "t"},
                "options": [],
            },
        )
    refused = 0
    while refused < 100 - 16:
        message = receive()
        refused += "error" in message
    say(session, "refused")


def terminals(session: str, rest: str) -> None:
    """More terminals at once than it may have."""
    for number in range(40):
        send(id=f"t{number}", method="terminal/create", params={"sessionId": session, "command": "cat"})
    made = sum("result" in receive() for _ in range(40))
    say(session, str(made))


PROMPTS = {
    "answer_hugely": answer_hugely,
    "ask": ask,
    "crash": crash,
    "endless": endless,
    "flood": flood,
    "hang_up": hang_up,
    "huge": huge,
    "ignore": ignore,
    "many": many,
    "nasty": nasty,
    "numbers": numbers,
    "orphan": orphan,
    "request": request,
    "say": say,
    "sulk": sulk,
    "strange": strange,
    "terminals": terminals,
}

if __name__ == "__main__":
    main()
