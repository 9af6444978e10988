"""Why no connection comes about: kafka-python says so in its log alone, and raises a timeout.

It also drops what a broker says last: a refused password comes as "socket disconnected", since the
broker's answer and the end of the connection arrive together.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import errors as raised

from pipeline.errors import Fatal

from .client import Cluster

#: Where the client logs a connection that did not come about, with the exception.
_SPEAKS = "kafka.net.manager"


@contextmanager
def explained(cluster: Cluster) -> Iterator[None]:
    """Around a client's first connection: a timeout becomes `Fatal` with the reason, where one is
    known that trying again does not mend."""
    heard = _Heard()
    log = logging.getLogger(_SPEAKS)
    log.addHandler(heard)
    try:
        yield
    except raised.KafkaTimeoutError as error:
        reason = heard.last and of(cluster, heard.last)
        if reason is None:
            raise
        raise reason from error
    finally:
        log.removeHandler(heard)


_TIMEOUTS = (raised.KafkaTimeoutError, raised.RequestTimedOutError)

#: A broker that ends a connection with bytes of ours unread resets it instead.
_ENDED = ("socket disconnected", "reset by peer", "Broken pipe", "closed during send")


def _timed_out(error: Exception) -> bool:
    """As the last try does that the deadline cuts short: it says nothing of those before."""
    return isinstance(error, _TIMEOUTS) or str(error).endswith("Connection timed out")


class _Heard(logging.Handler):
    """Keeps the last exception that was logged, but for timeouts: one is raised in the end."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        for arg in args:
            if isinstance(arg, Exception) and not _timed_out(arg):
                self.last = arg
        if not args and record.levelno == logging.ERROR:  # one that was written out beforehand
            self.last = raised.KafkaConnectionError(record.getMessage())


def of(cluster: Cluster, error: Exception) -> Fatal | None:
    """The refusal that ``error`` stands for; None where there may just be nobody."""
    at, options, text = cluster.bootstrap, cluster.options, str(error)
    protocol = str(options.get("security_protocol", "PLAINTEXT"))
    ended = any(how in text for how in _ENDED)
    if isinstance(error, raised.UnsupportedSaslMechanismError):
        return Fatal(f"{at}: {text}", "choose one with --client-option sasl_mechanism=…")
    if isinstance(error, (FileNotFoundError, PermissionError, ssl.SSLError)):
        return Fatal(
            f"{at}: TLS cannot be set up ({text})",
            "check the files of ssl_cafile, ssl_certfile and ssl_keyfile (--client-option)",
        )
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return _untrusted(at, text)
    if "Handshake failed" in text:
        return Fatal(
            f"{at}: no TLS connection comes about ({text})",
            "check security_protocol: the listener may be one without TLS, or want a certificate "
            "of ours (ssl_certfile, ssl_keyfile)",
        )
    if isinstance(error, raised.SaslAuthenticationFailedError) or (
        protocol.startswith("SASL") and ended
    ):
        return _refused(at, protocol, options)
    if ended:
        return Fatal(
            f"{at}: the broker ends every {protocol} connection",
            "check security_protocol: the listener may want TLS or SASL",
        )
    return None


def _untrusted(at: str, text: str) -> Fatal:
    remedy = "name the authority that signed it: --client-option ssl_cafile=FILE"
    if "mismatch" in text or "IP address" in text:
        remedy = "name the broker in --bootstrap as its certificate does"
    return Fatal(f"{at}: the broker's certificate is not trusted ({text})", remedy)


def _refused(at: str, protocol: str, options: Any) -> Fatal:
    user, mechanism = options.get("sasl_plain_username"), options.get("sasl_mechanism")
    return Fatal(
        f"{at}: the broker refuses {user} over {protocol} with {mechanism}",
        "check sasl_plain_username, sasl_plain_password, sasl_mechanism and security_protocol "
        "(--client-option)",
    )
