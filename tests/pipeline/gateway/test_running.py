"""The sockets that a gateway is reached by."""

from __future__ import annotations

import socket

import pytest

from pipeline.gateway.running import UNCONFIRMED_MS, listen
from pipeline.health import Address


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
def test_a_client_that_confirms_nothing_is_given_up() -> None:
    with (
        listen(Address("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        wait_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert wait_ms == UNCONFIRMED_MS
