"""Which addresses can be given, and which of the places they lead to may be reached."""

from __future__ import annotations

import pytest

from holdfast.errors import DeliveryError, DeliveryRefusedError, UsageError
from holdfast.hooks import Reach, read_address


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.org", "example.org", 443, "/"),
        ("http://Example.org:8080/a/b?c=d&e=%20#x", "example.org", 8080, "/a/b?c=d&e=%20"),
        ("https://[::1]:9/ä", "::1", 9, "/%C3%A4"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "/"),
    ],
)
def test_an_address_is_read(url: str, host: str, port: int, path: str) -> None:
    address = read_address(url)
    assert (address.host, address.port, address.path) == (host, port, path)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.org/x", "//example.org", "ftp://example.org/", "file:///etc/passwd", "http://", "https:///x",
        "http://a b/", "http://a/\r\nX: y", "http://a/\x00", "http://a:99999/", "http://a:b/", "http://[::1/",
        "https://example.org/" + "x" * 2000, "http://" + "ä" * 100 + "/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        read_address(url)


def test_a_password_in_an_address_is_refused_because_it_would_be_stored() -> None:
    with pytest.raises(UsageError, match="holds a password") as caught:
        read_address("https://me:hunter2@example.org/")
    assert "hunter2" not in str(caught.value)


def test_an_address_is_shown_without_its_path_which_may_be_a_secret() -> None:
    assert read_address("https://example.org:1/services/T0/secret?a=b").shown == "https://example.org:1/…"


NEVER = ["169.254.169.254", "169.254.0.1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "0.0.0.0", "::",
         "224.0.0.1", "255.255.255.255", "ff02::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
         "2002:a9fe:a9fe::1"]  # fmt: skip
INSIDE = ["127.0.0.1", "127.8.8.8", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1",
          "::ffff:127.0.0.1", "64:ff9b::7f00:1"]  # fmt: skip
OUTSIDE = ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"]


@pytest.mark.parametrize("place", NEVER)
def test_link_local_metadata_and_multicast_are_never_reached_whatever_is_allowed(place: str) -> None:
    for reach in (Reach(None), Reach([]), Reach(["0.0.0.0/0", "::/0", "host"])):
        assert not reach.allows("host", place)


@pytest.mark.parametrize("place", INSIDE)
def test_our_own_machines_are_reached_only_by_whom_they_are_allowed(place: str) -> None:
    assert Reach(None).allows("host", place)
    assert not Reach([]).allows("host", place)
    assert Reach(["HOST"]).allows("host", place)
    assert not Reach(["other"]).allows("host", place)
    assert Reach(
        ["127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.1", "192.168.0.0/16", "100.64.0.0/10", "fd00::/8"]
    ).allows("host", place)


@pytest.mark.parametrize("place", OUTSIDE)
def test_what_is_on_the_internet_may_be_reached(place: str) -> None:
    assert Reach([]).allows("host", place)


async def test_a_name_is_judged_by_what_it_stands_for() -> None:
    here = read_address("http://localhost:1/")
    assert "127.0.0.1" in await Reach(None).places(here)
    with pytest.raises(DeliveryRefusedError, match=r"which webhooks may not reach.*add it to `allow`"):
        await Reach([]).places(here)


async def test_a_name_that_stands_for_nothing_is_tried_again_later() -> None:
    with pytest.raises(DeliveryError, match="cannot be found") as caught:
        await Reach([]).places(read_address("http://nobody.invalid/"))
    assert not isinstance(caught.value, DeliveryRefusedError)
