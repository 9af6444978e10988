"""What the client says only in its log becomes the error: what, where, remedy."""

from __future__ import annotations

import logging
import ssl

import pytest
from kafka import errors as raised

from pipeline.errors import Fatal
from pipeline.kafka.client import Cluster
from pipeline.kafka.reasons import explained

TIMEOUT = raised.KafkaTimeoutError("Unable to bootstrap")
GONE = raised.KafkaConnectionError("socket disconnected")
CUT_SHORT = raised.KafkaConnectionError("Connection timed out")
RESET = raised.KafkaConnectionError(ConnectionResetError(104, "Connection reset by peer"))
SASL = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "me",
    "sasl_plain_password": "pw-of-me",
}
UNTRUSTED = "Handshake failed: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
CLIENT = logging.getLogger("kafka.net.manager")


def connecting(options: dict[str, str], *heard: Exception | str) -> None:
    """As the client does it: reasons go to its log, what is raised is a timeout."""
    with explained(Cluster("b:1", options)):
        for reason in heard:
            if isinstance(reason, str):
                CLIENT.error(f"Bootstrap attempt to bootstrap-0 failed: {reason}")
            else:
                CLIENT.warning("Bootstrap connection to %s failed: %s", "bootstrap-0", reason)
        CLIENT.error("Bootstrap failed: %s", TIMEOUT)
        raise TIMEOUT


@pytest.mark.parametrize(
    ("options", "heard", "what", "remedy"),
    [
        (SASL, [GONE], "the broker refuses me over SASL_SSL with PLAIN", "sasl_plain_password"),
        (SASL, [raised.SaslAuthenticationFailedError("no")], "refuses me", "sasl_plain_username"),
        (SASL, [GONE, raised.RequestTimedOutError("late")], "refuses me", "sasl_mechanism"),
        (
            SASL,
            [raised.UnsupportedSaslMechanismError("Enabled mechanisms: ['X']")],
            "Enabled mechanisms: ['X']",
            "--client-option sasl_mechanism",
        ),
        (
            SASL,
            [raised.KafkaConnectionError(UNTRUSTED + "self-signed certificate")],
            "is not trusted",
            "--client-option ssl_cafile=FILE",
        ),
        (
            SASL,
            [raised.KafkaConnectionError(UNTRUSTED + "IP address mismatch")],
            "is not trusted",
            "name the broker in --bootstrap as its certificate does",
        ),
        (
            {"security_protocol": "SSL"},
            [raised.KafkaConnectionError("Handshake failed: [SSL] wrong version number")],
            "no TLS connection comes about",
            "may be one without TLS",
        ),
        (SASL, [FileNotFoundError(2, "No such file")], "TLS cannot be set up", "ssl_cafile"),
        (SASL, [ssl.SSLError("no certificate")], "TLS cannot be set up", "ssl_certfile"),
        ({}, [GONE], "the broker ends every PLAINTEXT connection", "may want TLS or SASL"),
        ({}, [RESET], "the broker ends every PLAINTEXT connection", "may want TLS or SASL"),
        ({}, [GONE, CUT_SHORT], "the broker ends every PLAINTEXT connection", "may want TLS"),
        (SASL, [RESET], "the broker refuses me over SASL_SSL with PLAIN", "sasl_plain_password"),
        ({"security_protocol": "SSL"}, ["socket disconnected"], "ends every SSL", "TLS or SASL"),
    ],
)
def test_a_refusal_is_said_with_its_remedy(
    options: dict[str, str], heard: list[Exception | str], what: str, remedy: str
) -> None:
    with pytest.raises(Fatal) as caught:
        connecting(options, *heard)
    assert caught.value.message.startswith("b:1: ")
    assert what in caught.value.message
    assert remedy in caught.value.remedy
    assert "pw-of-me" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "heard",
    [
        [],
        [CUT_SHORT],
        [raised.RequestTimedOutError("late")],
        [GONE, ConnectionRefusedError(111, "refused"), CUT_SHORT],
    ],
)
def test_nobody_there_stays_a_timeout(heard: list[Exception | str]) -> None:
    with pytest.raises(raised.KafkaTimeoutError):
        connecting(SASL, *heard)


def test_what_comes_about_is_left_alone_and_the_log_as_it_was() -> None:
    before = list(CLIENT.handlers)
    with explained(Cluster("b:1")):
        CLIENT.warning("Bootstrap connection to %s failed: %s", "bootstrap-0", GONE)
    with pytest.raises(raised.UnknownTopicOrPartitionError):  # noqa: SIM117
        with explained(Cluster("b:1", SASL)):
            raise raised.UnknownTopicOrPartitionError
    assert CLIENT.handlers == before
