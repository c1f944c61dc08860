from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.infra import http, netguard
from app.infra.netguard import ADMIN, PUBLIC
from tests.fakes.raw_server import RawServer, keep_alive

NEVER = [
    "169.254.169.254",
    "169.254.1.1",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%2",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::ffff:0:a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2001:470::5efe:a9fe:a9fe",
    "2001:470::200:5efe:a9fe:a9fe",
]
PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.0.8",
    "::1",
    "fd12:3456::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "::ffff:0:7f00:1",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1:7f00:0:100::",
    "2606:4700::5efe:7f00:1",
    "2002:0a00:0001::1",
    "2001:db8::1",
]
OPEN = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("text", NEVER)
def test_nobody_reaches_metadata_link_local_and_nameless_addresses(text: str) -> None:
    for guard in (ADMIN, PUBLIC, PUBLIC.allowing("h.test", "0.0.0.0/0", "::/0")):
        assert guard.objection("h.test", ip_address(text))


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_are_for_administrators_only(text: str) -> None:
    assert not ADMIN.objection("h.test", ip_address(text))
    assert PUBLIC.objection("h.test", ip_address(text)) == "a private address"


@pytest.mark.parametrize("text", OPEN)
def test_public_addresses_are_for_everybody(text: str) -> None:
    assert not ADMIN.objection("h.test", ip_address(text))
    assert not PUBLIC.objection("h.test", ip_address(text))


@pytest.mark.parametrize("name", ["h.test", "H.Test.", "10.1.2.3", "10.1.0.0/16"])
def test_an_allow_list_names_hosts_addresses_and_networks(name: str) -> None:
    guard = PUBLIC.allowing(name)
    assert not guard.objection("h.test", ip_address("10.1.2.3"))
    assert guard.objection("other.test", ip_address("10.2.2.3"))


@settings(deadline=None)
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_ipv6_clothes_is_judged_as_itself(address: Any) -> None:
    plain = bool(PUBLIC.objection("h.test", address))
    for carrier in ("::ffff:0:0", "64:ff9b::", "::ffff:0:0:0", "2606:4700::5efe:0:0"):
        dressed = ip_address(int(ip_address(carrier)) + int(address))
        assert bool(PUBLIC.objection("h.test", dressed)) == plain


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "localhost", "[::1]"])
def test_public_addresses_can_not_be_abused_to_spell_loopback_oddly(host: str) -> None:
    with pytest.raises(http.HttpError) as caught:
        http.request("GET", f"http://{host}:9/", guard=PUBLIC)
    assert caught.value.kind == "blocked"
    assert not caught.value.sent


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[::ffff:169.254.169.254]"])
def test_an_administrators_address_can_not_be_abused_to_spell_metadata_oddly(host: str) -> None:
    with pytest.raises(http.HttpError) as caught:
        http.request("GET", f"http://{host}/latest/meta-data/", guard=ADMIN)
    assert caught.value.kind == "blocked"


def test_a_name_can_not_be_abused_to_lead_to_a_private_address(names: Callable[..., list[str]]) -> None:
    with RawServer(keep_alive(b"secret")) as server:
        names(["127.0.0.1"])
        with pytest.raises(http.HttpError) as caught:
            http.request("GET", f"http://evil.example.test:{server.port}/", guard=PUBLIC)
        assert caught.value.kind == "blocked"
        assert server.accepted == 0


def test_one_private_address_among_public_ones_refuses_them_all(names: Callable[..., list[str]]) -> None:
    names(["1.1.1.1", "127.0.0.1"])
    with pytest.raises(http.HttpError) as caught:
        http.request("GET", "http://evil.example.test:9/", guard=PUBLIC)
    assert caught.value.kind == "blocked"


def test_a_name_can_not_be_abused_to_change_its_address_between_check_and_connection(
    names: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = names(["1.1.1.1"], ["127.0.0.1"])
    dialled: list[Any] = []

    class Dialler(socket.socket):
        def connect(self, address: Any) -> None:
            dialled.append(address)
            raise ConnectionRefusedError(111, "no network in tests")

    with RawServer(keep_alive(b"secret")) as server:
        monkeypatch.setattr(netguard.socket, "socket", Dialler)
        with pytest.raises(http.HttpError):
            http.request("GET", f"http://evil.example.test:{server.port}/", guard=PUBLIC)
        assert len(asked) == 1
        assert [address[0] for address in dialled] == ["1.1.1.1"]
        assert server.accepted == 0


def test_a_connection_that_an_administrator_opened_is_not_used_for_others(names: Callable[..., list[str]]) -> None:
    names(["127.0.0.1"])
    with RawServer(keep_alive(b"fine")) as server:
        url = f"http://both.example.test:{server.port}/"
        assert http.request("GET", url, guard=ADMIN).body == b"fine"
        with pytest.raises(http.HttpError):
            http.request("GET", url, guard=PUBLIC)
        assert http.request("GET", url, guard=PUBLIC.allowing("both.example.test")).body == b"fine"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Answers of the resolver, one list of addresses a look-up; it gives the list of hosts that were asked for."""

    def answer(*rounds: list[str]) -> list[str]:
        asked: list[str] = []

        def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
            asked.append(host)
            found = rounds[min(len(asked), len(rounds)) - 1]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setattr(netguard.socket, "getaddrinfo", getaddrinfo)
        return asked

    return answer
