"""The demonstration agent speaks the protocol as the official types have it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import acp.schema as schema

PROMPT = (
    "say a b\nthink c\nplan d; e\ntool f\nask g\nwrite h i\nread h\nrun true\nsettings\nrecall\nanything else\ncount 2"
)
CLIENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "session/request_permission": (
        schema.RequestPermissionRequest,
        {"outcome": {"outcome": "selected", "optionId": "yes"}},
    ),
    "fs/write_text_file": (schema.WriteTextFileRequest, {}),
    "fs/read_text_file": (schema.ReadTextFileRequest, {"content": "i\n"}),
    "terminal/create": (schema.CreateTerminalRequest, {"terminalId": "t"}),
    "terminal/wait_for_exit": (schema.WaitForTerminalExitRequest, {"exitCode": 0}),
    "terminal/output": (schema.TerminalOutputRequest, {"output": "", "truncated": False}),
    "terminal/release": (schema.ReleaseTerminalRequest, {}),
}


def test_every_message_of_the_demonstration_is_as_the_official_types_want_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast.acp.demo"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdin
        assert agent.stdout
        seen: set[str] = set()

        def send(**message: Any) -> None:
            agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")  # type: ignore[union-attr]
            agent.stdin.flush()  # type: ignore[union-attr]

        def ask(method: str, **params: Any) -> Any:
            send(id=1, method=method, params=params)
            while True:
                message = json.loads(agent.stdout.readline())  # type: ignore[union-attr]
                if message.get("method") == "session/update":
                    seen.add(schema.SessionNotification.model_validate(message["params"]).update.session_update)
                elif "method" in message:
                    kind, answer = CLIENT[message["method"]]
                    kind.model_validate(message["params"])
                    send(id=message["id"], result=answer)
                else:
                    return message["result"]

        told = schema.InitializeResponse.model_validate(ask("initialize", protocolVersion=1))
        assert told.agent_capabilities
        assert told.agent_capabilities.load_session
        new = schema.NewSessionResponse.model_validate(ask("session/new", cwd=str(tmp_path), mcpServers=[]))
        assert new.modes
        assert new.config_options
        prompt = [{"type": "text", "text": PROMPT}]
        done = schema.PromptResponse.model_validate(ask("session/prompt", sessionId=new.session_id, prompt=prompt))
        assert done.usage
        ask("session/load", sessionId=new.session_id, cwd=str(tmp_path), mcpServers=[])
        ask("session/set_mode", sessionId=new.session_id, modeId="bold")
        agent.stdin.close()
        assert agent.wait() == 0
    assert seen == {
        "agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "tool_call_update", "user_message_chunk",
        "current_mode_update",
    }  # fmt: skip


def test_started_by_hand_it_says_what_it_is_and_leaves() -> None:
    # regression: without a pipe on its input it waited for ever
    command = [sys.executable, "-m", "holdfast.acp.demo"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=40, check=False)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "holdfast agents check demo" in done.stderr
