"""`[hooks.NAME]` and `[webhooks]` of `holdfast.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError
from holdfast.hooks import HookSettings, read_hooks
from holdfast.ports import Subscription
from holdfast.service import read_settings

FILE = """
[worker]
places = 2

[hooks.slack]
on = ["waiting", "failed"]
flow = "deploy-*"
url = "https://example.org/services/x"
secret_env = "SLACK_KEY"

[hooks.log]
on = ["step_completed"]
command = ["logger", "-t", "holdfast"]

[webhooks]
allow = ["10.0.0.0/8", "ci.internal"]
"""


def read(folder: Path, text: str) -> HookSettings:
    (folder / "holdfast.toml").write_text(text)
    return read_hooks(folder)


def test_without_a_file_there_are_no_hooks(tmp_path: Path) -> None:
    assert read_hooks(tmp_path) == HookSettings()


def test_hooks_are_read_beside_the_other_settings(tmp_path: Path) -> None:
    found = read(tmp_path, FILE)
    assert found.subscriptions() == [
        Subscription("hook:slack", frozenset({"waiting", "failed"}), "deploy-*"),
        Subscription("hook:log", frozenset({"step_completed"}), "*"),
    ]
    assert (found.hooks["log"].command, found.allow) == (("logger", "-t", "holdfast"), ("10.0.0.0/8", "ci.internal"))
    assert read_settings(tmp_path, {}).places == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hooks = 3", "hooks: Expected `object`"),
        ("[hooks]\non = ['failed']", "hooks"),
        ("[hooks.a]\nurl = 'https://a/'", "missing required field `on`"),
        ("[hooks.a]\non = []\nurl = 'https://a/'", "length >= 1"),
        ("[hooks.a]\non = ['fialed']\nurl = 'https://a/'", "Invalid enum value 'fialed'"),
        ("[hooks.a]\non = ['failed']\nurll = 'https://a/'", "unknown field `urll`"),
        ("[hooks.a]\non = ['failed']", "hooks.a: give either url or command"),
        ("[hooks.a]\non = ['failed']\nurl = 'https://a/'\ncommand = ['x']", "give either url or command"),
        ("[hooks.a]\non = ['failed']\nurl = 'a'", "hooks.a: url: 'a' is no address"),
        ("[hooks.a]\non = ['failed']\nurl = 'https://a/'\nsecret_env = 'a b'", "secret_env names the environment"),
        ("[hooks.a]\non = ['failed']\ncommand = ['x']\nsecret_env = 'A'", "secret_env names the environment"),
        ('[hooks."a\\nb"]\non = ["failed"]\ncommand = ["x"]', "no name for a hook"),
        ("[webhooks]\nallowed = []", "unknown field `allowed`"),
        ("[hooks.a\n", "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "holdfast.toml" in str(caught.value)
