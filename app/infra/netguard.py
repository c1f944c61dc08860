"""Which addresses a request may reach, and sockets that another thread can cut.

Names are resolved here, once a connection, every address is checked, and the connection goes to the checked address:
no second look-up that could tell something else (DNS rebinding). The name stays with the connection, so TLS proves it.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Literal

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from app.infra import clock

Address = IPv4Address | IPv6Address
HOSTS = 64
CONNECTIONS = 256
# Servers close idle connections after 5 s (Apache, uvicorn) or more; a request on one that is just being closed is lost.
IDLE_SECONDS = 4.0

# Link-local, multicast and unspecified addresses are refused by their kind; these serve machines' secrets elsewhere.
METADATA = frozenset(
    ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)
NEVER = tuple(ip_network(text) for text in ("0.0.0.0/8", "240.0.0.0/4", "fec0::/10"))
# What ipaddress of some Python versions still calls global.
NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
    )
)
# The last 32 bits are an IPv4 address: NAT64, and what SIIT translates.
CARRIERS = tuple(ip_network(text) for text in ("64:ff9b::/96", "::ffff:0:0:0/96"))
SITE_NAT64 = ip_network("64:ff9b:1::/48")
COMPATIBLE = ip_network("::/96")
# ISATAP: whatever the network, the interface is named by this and an IPv4 address; the global bit may be set.
ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


@dataclass(frozen=True)
class Guard:
    """A rule about addresses. `allowed` names hosts, addresses or networks that may be private all the same.

    Link-local, metadata, multicast and unspecified addresses are never reached, whoever asks.
    """

    private: bool
    same_origin: bool
    allowed: frozenset[str] = frozenset()

    def allowing(self, *names: str) -> Guard:
        """The same rule with an administrator's allow-list: host names, addresses, or networks such as 10.1.0.0/16."""
        return replace(self, allowed=self.allowed | {name.strip().rstrip(".").lower() for name in names})

    def objection(self, host: str, address: Address) -> str:
        """Why `address`, found for `host`, must not be reached; empty when it may."""
        faces = (address, *embedded(address))
        for face in faces:
            if reason := _never(face):
                return reason
        if self.private or self._listed(host, faces):
            return ""
        return "a private address" if any(not _public(face) for face in faces) else ""

    def _listed(self, host: str, faces: tuple[Address, ...]) -> bool:
        if not self.allowed:
            return False
        if host.rstrip(".").lower() in self.allowed:
            return True
        networks = [network for name in self.allowed if (network := _network(name))]
        return any(face in network for face in faces for network in networks)


ADMIN = Guard(private=True, same_origin=True)
"""For addresses that an administrator typed: may be private; redirects stay on the same origin."""
PUBLIC = Guard(private=False, same_origin=False)
"""For addresses of users, documents and servers: public only."""


class Unreached(Exception):
    """No connection was made, so nothing was sent; the text is for the trace."""

    def __init__(self, kind: Literal["blocked", "dns", "refused", "timeout", "cut"], text: str) -> None:
        super().__init__(text)
        self.kind = kind


def embedded(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that an IPv6 address carries (mapped, compatible, NAT64, SIIT, ISATAP, 6to4, Teredo)."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    elif _carries(address):
        yield IPv4Address(bits & 0xFFFFFFFF)
    if address in SITE_NAT64:
        # Whether the site's prefix has 96 bits or 48 (then around an empty byte, RFC 6052) can't be seen.
        readings = (bits & 0xFFFFFFFF, (bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF)
        yield from (IPv4Address(reading) for reading in readings if reading >> 24)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo


def resolve(host: str, port: int, guard: Guard) -> list[tuple[int, Any]]:
    """The addresses of `host` as (family, socket address), in the resolver's order. Raises Unreached.

    One forbidden address among them refuses them all: honest names don't mix.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreached("dns", f"{host} can't be resolved: {error}") from error
    for _, _, _, _, target in found:
        if reason := guard.objection(host, ip_address(target[0])):
            raise Unreached("blocked", f"{host} is {reason}")
    return [(family, target) for family, _, _, _, target in found]


class Wire:
    """What one exchange holds of the network, so that another thread can cut it at any moment."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.used = False
        self.sent = False
        self.is_cut = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def cut(self) -> None:
        """Shuts the socket down, which wakes whoever waits on it; later connections of this exchange fail."""
        with self._lock:
            self.is_cut = True
            self._shut()

    def hold(self, sock: socket.socket) -> None:
        """Remembers the socket that the exchange uses now. Raises Unreached when it was cut already."""
        with self._lock:
            self.used = True
            self._socket = sock
            if self.is_cut:
                self._shut()
                raise Unreached("cut", "cut while connecting")

    def let_go(self) -> None:
        """The connection goes back to the pool: from now on it belongs to somebody else."""
        with self._lock:
            self._socket = None

    def connect(self, host: str, port: int, timeout: float | None) -> socket.socket:
        """A connected socket to a checked address of `host`. Raises Unreached."""
        end = clock.monotonic() + (timeout or 0)
        failure = "no address"
        for family, target in resolve(host, port, self.guard):
            left = end - clock.monotonic() if timeout else None
            if left is not None and left <= 0:
                break
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.settimeout(left)
                self.hold(sock)
                sock.connect(target)
            except TimeoutError:
                sock.close()
            except OSError as error:
                sock.close()
                failure = str(error)
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        if self.is_cut:
            raise Unreached("cut", "cut while connecting")
        if timeout and clock.monotonic() >= end:
            raise Unreached("timeout", f"{host}:{port} did not take the connection in {timeout:g} s")
        raise Unreached("refused", f"{host}:{port}: {failure}")

    def _shut(self) -> None:
        if self._socket is None:
            return
        with suppress(OSError):
            # The method of the plain class: that of SSLSocket tears down state which the reading thread is using.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


current: ContextVar[Wire] = ContextVar("current")
"""The wire of the exchange that this thread is working on."""


class _Watched(HTTPConnection):
    """A connection that goes where the guard allows and tells its wire what it does."""

    idle_since: float | None = None

    @property
    def is_connected(self) -> bool:
        if self.idle_since is not None and clock.monotonic() - self.idle_since > IDLE_SECONDS:
            return False
        return super().is_connected

    def _new_conn(self) -> socket.socket:
        timeout = self.timeout if isinstance(self.timeout, int | float) else None
        return current.get().connect(self._dns_host, self.port, timeout)

    def connect(self) -> None:
        super().connect()
        current.get().hold(self.sock)

    def send(self, data: Any) -> None:
        wire = current.get()
        if self.sock is None:
            self.connect()
        elif not wire.sent:
            wire.hold(self.sock)
        wire.sent = True
        super().send(data)


class _WatchedTls(_Watched, HTTPSConnection):
    _spare: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        # TLS takes the socket over while it shakes hands; a second handle to it lets the wire be cut meanwhile.
        self._spare = sock.dup()
        current.get().hold(self._spare)
        return sock

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            if self._spare is not None:
                self._spare.close()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched

    def _put_conn(self, conn: Any) -> None:
        current.get().let_go()
        if conn is not None:
            conn.idle_since = clock.monotonic()
        super()._put_conn(conn)


class _TlsPool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


class Pools(PoolManager):
    """Kept-alive connections, all made under one guard and one idea of whom to trust."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(HOSTS, maxsize=CONNECTIONS, ssl_context=context)
        self.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


def _carries(address: IPv6Address) -> bool:
    bits = int(address)
    if address in COMPATIBLE:
        return bits > 1
    return any(address in network for network in CARRIERS) or bits >> 32 & 0xFFFFFFFF in ISATAP


def _never(address: Address) -> str:
    if address.is_link_local or address in METADATA:
        return "a link-local or metadata address"
    if address.is_multicast or address.is_unspecified or any(address in network for network in NEVER):
        return "an address that is nobody's"
    return ""


def _public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return _public(address.ipv4_mapped)
    return address.is_global and not any(address in network for network in NOT_PUBLIC)


def _network(name: str) -> Any:
    try:
        return ip_network(name, strict=False)
    except ValueError:
        return None
