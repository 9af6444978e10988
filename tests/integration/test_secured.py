"""Over SASL and TLS, with no more rights than the runbook grants; and what is said without them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from pipeline.broker import unavailable
from pipeline.topics import ROLES, Names
from tests.integration.secured_kafka import Rights, Secured, secured_kafka

INSTANCE = "1"
NAMES = Names()
EVENTS, GROUP = NAMES.of("events"), NAMES.application
OUTPUTS = [NAMES.of(role) for role in ROLES if role != "events"]
LINE = (
    b'{"type":"user/message","seq":0,"time":1,"surfaceOp":"append","data":{"id":"m","role":"user",'
    b'"content":[],"source":{"kind":"user"}}}'
)
QUICK = {"bootstrap_timeout_ms": "4000"}  #: what is refused once is refused again
BOUNDED_S = 60  #: for a command that cannot succeed, on a busy machine


def worker(instance: str = INSTANCE, *, but: str = "") -> Rights:
    """The rights of `run` in the runbook; ``but`` takes away those on one topic, or kind."""
    rights = {
        ("topic", EVENTS): "read describe_configs",
        **{("topic", topic): "read write describe_configs" for topic in OUTPUTS},
        ("group", GROUP): "read",
        ("transactional_id", f"{GROUP}-{instance}"): "write",
    }
    return {at: rights for at, rights in rights.items() if but not in at}


WRITER: Rights = {
    ("topic", EVENTS): "read write describe_configs",
    **{("topic", topic): "read describe_configs" for topic in OUTPUTS},
    ("topic", NAMES.of("deadletter")): "read write describe_configs",
    ("group", GROUP): "describe",
}
READER: Rights = {
    **{("topic", topic): "read describe_configs" for topic in (EVENTS, *OUTPUTS)},
    ("group", GROUP): "describe",
}
NO_WRITE: Rights = {**worker(), ("topic", NAMES.of("transcript")): "read describe_configs"}

USERS: Mapping[str, Rights] = {
    "worker": worker(),
    "writer": WRITER,
    "reader": READER,
    "nowrite": NO_WRITE,
    "nogroup": worker(but="group"),
    "notransaction": worker(but="transactional_id"),
    "notopic": worker(but=EVENTS),
}


class Ran(msgspec.Struct):
    code: int
    out: str
    err: str
    seconds: float

    @property
    def last(self) -> str:
        return self.err.strip().rpartition("\n")[2]


def command(at: str, options: Mapping[str, str], *argv: object) -> subprocess.Popen[str]:
    """A command as a user gives it; the password, and it alone, through the environment."""
    options = dict(options)
    password = options.pop("sasl_plain_password")
    given = [x for k, v in options.items() for x in ("--client-option", f"{k}={v}")]
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", *map(str, argv), "--bootstrap", at, *given],
        env={**os.environ, "FOLDSTREAM_CLIENT_OPTION_SASL_PLAIN_PASSWORD": password},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(at: str, options: Mapping[str, str], *argv: object) -> Ran:
    began = time.monotonic()
    with command(at, options, *argv) as child:
        try:
            out, err = child.communicate(timeout=3 * BOUNDED_S)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    assert options["sasl_plain_password"] not in out + err
    return Ran(child.returncode, out, err, time.monotonic() - began)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if why := unavailable():
        if os.environ.get("CI") == "true":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("secured")
    with pytest.MonkeyPatch.context() as patch, secured_kafka(folder, USERS) as made:
        patch.setenv("XDG_STATE_HOME", str(folder / "states"))  # the workers' local stores
        made.create_topics(NAMES)
        for user, rights in USERS.items():
            made.grant(user, rights)
        yield made


@pytest.fixture(scope="module")
def folded(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Sessions ingested over PLAIN and folded over SCRAM."""
    logs = tmp_path_factory.mktemp("logs") / "root"
    at = secured.cluster.secured
    simulate = ("simulate", "--sessions", 3, "--events-per-session", 40, "--to", logs)
    assert subprocess.call([sys.executable, "-m", "pipeline.cli", *map(str, simulate)]) == 0
    sent = run(at, secured.options("writer", "PLAIN"), "ingest", logs)
    assert sent.code == 0, sent.err
    return run(at, secured.options("worker"), "run", "--once", "--instance", INSTANCE, "--json")


def test_a_worker_folds_with_the_rights_of_the_runbook(folded: Ran) -> None:
    assert folded.code == 0, folded.err
    assert msgspec.json.decode(folded.out)["records"] > 100


def test_who_may_only_read_can_prove_and_show(secured: Secured, folded: Ran) -> None:
    at, options = secured.cluster.secured, secured.options("reader")
    proven = run(at, options, "verify", "--json")
    assert proven.code == 0, proven.err
    assert msgspec.json.decode(proven.out.splitlines()[-1])["ok"] is True
    listed = run(at, options, "show")
    assert listed.code == 0, listed.err
    session = next(word for word in listed.out.split() if word.startswith("sim-"))
    shown = run(at, options, "show", session)
    assert shown.code == 0, shown.err
    assert len(shown.out.splitlines()) > 5
    assert run(at, options, "deadletter", "list").code == 0
    assert run(at, options, "topics", "check").code == 0


# --- refused --------------------------------------------------------------------------------------


def refused(ran: Ran) -> str:
    """One line that says what and what to do, within bounds."""
    assert (ran.code, ran.out) == (1, ""), ran.err
    assert ran.seconds < BOUNDED_S
    assert "Traceback" not in ran.err
    assert ran.last.startswith("foldstream: ")
    assert "; " in ran.last, "a remedy"
    return ran.last


@pytest.mark.parametrize(
    ("mechanism", "argv"), [("PLAIN", ("run", "--once")), ("SCRAM-SHA-512", ("verify",))]
)
def test_a_wrong_password_is_said(secured: Secured, mechanism: str, argv: tuple[str, ...]) -> None:
    options = secured.options("worker", mechanism, **QUICK)
    options["sasl_plain_password"] = "not-this-one"
    ran = run(secured.cluster.secured, options, *argv)
    said = refused(ran)
    assert f"the broker refuses worker over SASL_SSL with {mechanism}; check " in said
    assert ran.err.count("\n") == 1


def test_an_authority_that_signed_nothing_here_is_said(secured: Secured) -> None:
    options = secured.options("worker", ssl_cafile=str(secured.other_ca), **QUICK)
    said = refused(run(secured.cluster.secured, options, "run", "--once"))
    assert "certificate is not trusted" in said
    assert "--client-option ssl_cafile=FILE" in said


def test_a_file_that_is_not_there_and_a_wrong_protocol_are_said(secured: Secured) -> None:
    at = secured.cluster.secured
    options = secured.options("worker", ssl_cafile="/nowhere/ca.pem", **QUICK)
    assert "TLS cannot be set up" in refused(run(at, options, "topics", "check"))
    # Nothing but the end of the connection says so: closed, or reset where bytes were left unread.
    options = secured.options("worker", security_protocol="PLAINTEXT", **QUICK)
    assert "may want TLS or SASL" in refused(run(at, options, "topics", "check"))


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ("nowrite", NAMES.of("transcript")),
        ("nogroup", "GroupAuthorizationFailed"),
        ("notransaction", "TransactionalIdAuthorizationFailed"),
        ("notopic", f"topic {EVENTS} is missing"),  # who may not see it is told no more
    ],
)
def test_a_right_that_is_missing_is_said(
    secured: Secured, folded: Ran, user: str, what: str
) -> None:
    """Something is there to be folded, so that a worker needs all its rights."""
    secured.append(EVENTS, f"for-{user}".encode(), LINE)
    said = refused(
        run(secured.cluster.secured, secured.options(user), "run", "--once", "--instance", INSTANCE)
    )
    assert what in said


# --- stopping -------------------------------------------------------------------------------------


def restored(secured: Secured, *argv: object) -> subprocess.Popen[str]:
    """A worker that is in its group and has states."""
    options = secured.options("worker")
    child = command(secured.cluster.secured, options, "run", "--instance", INSTANCE, *argv)
    assert child.stderr is not None
    while " sessions" not in child.stderr.readline():
        assert child.poll() is None
    return child


def test_a_worker_that_is_told_to_stop_drains(secured: Secured, folded: Ran) -> None:
    with restored(secured, "--log-level", "info", "--listen", "0") as child:
        child.send_signal(signal.SIGTERM)
        _, err = child.communicate(timeout=BOUNDED_S)
    assert child.returncode == 0, err
    assert "stopping after the batch in hand" in err


def test_a_second_signal_ends_it_at_once_though_the_broker_stands_still(
    secured: Secured, folded: Ran
) -> None:
    with restored(secured, "--log-level", "info") as child:
        secured.cluster.signal(1, signal.SIGSTOP)
        try:
            began = time.monotonic()
            child.send_signal(signal.SIGTERM)
            time.sleep(1)
            child.send_signal(signal.SIGTERM)
            _, err = child.communicate(timeout=BOUNDED_S)
            assert time.monotonic() - began < 10
        finally:
            secured.cluster.signal(1, signal.SIGCONT)
    assert child.returncode == 1, err
