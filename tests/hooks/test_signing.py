"""Signatures: what a receiver accepts, and what it must not."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from holdfast.errors import ConfigurationError, SignatureError
from holdfast.hooks import project_key, signed, verify

SECRET, BODY, NOW = "k" * 64, b'{"id":"d1","event":"failed"}', 1_750_000_000.7
HEADERS = signed(SECRET, "d1", BODY, now=NOW)


def test_the_signature_is_the_documented_one() -> None:
    assert HEADERS == {
        "Holdfast-Delivery": "d1",
        "Holdfast-Timestamp": "1750000000",
        "Holdfast-Signature": "v1=86ace12eda2640036c7e1d5efecd76272ebdb5e3a20367f6b6bf70ebdcf52f25",
    }


def test_a_message_is_accepted_whatever_the_case_of_its_headers() -> None:
    for headers in (HEADERS, {name.lower(): value for name, value in HEADERS.items()}):
        assert verify(SECRET, headers, BODY, now=NOW + 200) == {"id": "d1", "event": "failed"}


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({}, BODY + b" "),
        ({}, b""),
        ({"Holdfast-Timestamp": "1750000001"}, BODY),
        ({"Holdfast-Timestamp": "٣"}, BODY),
        ({"Holdfast-Signature": HEADERS["Holdfast-Signature"][:-1]}, BODY),
        ({"Holdfast-Signature": HEADERS["Holdfast-Signature"].replace("v1", "v0")}, BODY),
        ({"Holdfast-Signature": "v1="}, BODY),
        ({"Holdfast-Signature": "ü" * 67}, BODY),
    ],
)
def test_a_message_that_was_altered_is_refused(changes: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureError, match="not signed with this secret, or was altered"):
        verify(SECRET, HEADERS | changes, body, now=NOW)


def test_another_key_is_refused() -> None:
    with pytest.raises(SignatureError, match="not signed with this secret"):
        verify("x", HEADERS, BODY, now=NOW)


@pytest.mark.parametrize("missing", ["Holdfast-Timestamp", "Holdfast-Signature"])
def test_a_message_without_its_headers_is_refused(missing: str) -> None:
    with pytest.raises(SignatureError, match="has not both"):
        verify(SECRET, {name: value for name, value in HEADERS.items() if name != missing}, BODY, now=NOW)


@pytest.mark.parametrize("seconds", [-301, 302])
def test_an_old_message_sent_again_is_refused_and_so_is_one_of_the_future(seconds: float) -> None:
    with pytest.raises(SignatureError, match=r"30\d s old, more than 300"):
        verify(SECRET, HEADERS, BODY, now=NOW + seconds)
    assert verify(SECRET, HEADERS, BODY, now=NOW + seconds, tolerance=400)


def test_a_message_replayed_within_the_tolerance_is_known_by_its_id_whatever_its_headers_say() -> None:
    seen: set[str] = set()

    def receive(headers: dict[str, str]) -> str:
        told = verify(SECRET, headers, BODY, now=NOW)
        if told["id"] in seen:
            return "again"
        seen.add(told["id"])
        return "new"

    assert [receive(HEADERS), receive(HEADERS), receive(HEADERS | {"Holdfast-Delivery": "d2"})] == [
        "new",
        "again",
        "again",
    ]


# -- the project's own key -----------------------------------------------------------------------------------------


def test_a_project_has_one_key_for_its_owner_alone(tmp_path: Path) -> None:
    keys: list[str] = []
    threads = [threading.Thread(target=lambda: keys.append(project_key(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(keys)) == 1
    assert len(keys[0]) == 64
    assert os.listdir(tmp_path) == ["webhook.key"]
    assert stat.S_IMODE((tmp_path / "webhook.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64])
def test_a_key_file_that_holds_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "webhook.key").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"webhook\.key"):
        project_key(tmp_path)
