"""The proxy passes on, delays, resets and half-closes what it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.chaos.proxy import Address, Proxy
from tests.chaos.stage import java_hash

PATIENCE_S = 5.0


def free() -> Address:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        host, port = probe.getsockname()
        return host, port


@pytest.fixture
def echo() -> Iterator[Address]:
    """Says back whatever it hears."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(0.1)
        ended = threading.Event()

        def answer(connection: socket.socket) -> None:
            with closing(connection), suppress(OSError):
                while data := connection.recv(1024):
                    connection.sendall(data)

        def serve() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    connection, _ = server.accept()
                    connection.settimeout(PATIENCE_S)
                    threading.Thread(target=answer, args=[connection], daemon=True).start()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        ended.set()
        thread.join()


@pytest.fixture
def front(echo: Address) -> Iterator[tuple[Proxy, Address]]:
    address = free()
    with Proxy({address: echo}) as proxy:
        yield proxy, address


def client(address: Address) -> closing[socket.socket]:
    return closing(socket.create_connection(address, timeout=PATIENCE_S))


def says(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(1024)


def test_it_passes_on_and_delays(front: tuple[Proxy, Address]) -> None:
    proxy, address = front
    with client(address) as connection:
        assert says(connection, b"one") == b"one"
        proxy.delay(0.1)
        began = time.monotonic()
        assert says(connection, b"two") == b"two"
        assert time.monotonic() - began >= 0.2
        proxy.heal()
        assert says(connection, b"three") == b"three"


def test_a_cut_resets_and_refuses_until_it_is_healed(front: tuple[Proxy, Address]) -> None:
    proxy, address = front
    with client(address) as connection:
        assert says(connection, b"one") == b"one"
        proxy.cut(refuse=True)
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    with client(address) as connection, suppress(OSError):
        assert says(connection, b"two") == b""
    proxy.heal()
    with client(address) as connection:
        assert says(connection, b"three") == b"three"


def test_half_closed_connections_swallow_what_is_said(front: tuple[Proxy, Address]) -> None:
    """One of them is told that the other side says no more, the other is told nothing."""
    proxy, address = front
    with client(address) as one, client(address) as other:
        assert says(one, b"one") == says(other, b"one") == b"one"
        proxy.half_close()
        heard = []
        for connection in (one, other):
            connection.settimeout(0.5)
            try:
                heard.append(says(connection, b"two"))
            except TimeoutError:
                heard.append(b"silence")
        assert sorted(heard) == [b"", b"silence"]
    with client(address) as fresh:
        assert says(fresh, b"three") == b"three"


def test_a_port_that_is_taken_is_said(echo: Address) -> None:
    with pytest.raises(OSError, match="in use"), Proxy({echo: echo}):
        pass


def test_the_hash_is_javas() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("polygenelubricants") == 0  # Integer.MIN_VALUE without its sign
