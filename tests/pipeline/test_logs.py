"""The log: one line per record in both forms, coordinates, the client's words, and no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline import logs
from pipeline.logs import Redaction, at

SECRET = "hunter'2\\\n"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, client = logging.getLogger(), logging.getLogger(logs.CLIENT)
    before = (root.level, list(root.handlers), client.level)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    client.setLevel(before[2])


class Log:
    """What was written to standard error so far."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self._written = ""

    @property
    def lines(self) -> list[str]:
        self._written += self._capture.readouterr().err
        return self._written.splitlines()

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Log:
    return Log(capsys)


def raised(error: Exception) -> Exception:
    """With a traceback of its own."""
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_line_of_text_ends_with_where(log: Log) -> None:
    logs.setup("info")
    logging.getLogger("pipeline.x").info("%d read", 3, extra=at(topic="t", partition=0, offset=17))
    logging.getLogger("pipeline.x").info("no place")
    first, second = log.lines
    assert first.endswith(" INFO pipeline.x: 3 read [topic=t partition=0 offset=17]")
    assert second.endswith(" INFO pipeline.x: no place")


def test_a_line_of_json_has_its_coordinates_as_fields(log: Log) -> None:
    logs.setup("warning", "json", instance="w-1")
    place = at(partition=2, offset=0, session="s\ud800\x1b", generation=4)
    logging.getLogger("pipeline.x").warning("of \u202e%s", "two\nlines", extra=place)
    logging.getLogger("pipeline.x").info("too low")
    (line,) = log.documents
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "pipeline.x",
        "message": "of \u202etwo\nlines",
        "instance": "w-1",
        "partition": 2,
        "offset": 0,
        "session": "s\\ud800\x1b",
        "generation": 4,
    }
    assert log.lines[0].isascii(), "nothing that steers a terminal"


def test_a_traceback_stays_with_its_line(log: Log) -> None:
    for form in ("text", "json"):
        logs.setup("warning", form)
        error = raised(ValueError("broken \x1b[2J"))
        logging.getLogger("pipeline.x").error("no", exc_info=error)
    *text, document = log.lines
    assert text[1] == "Traceback (most recent call last):"
    assert text[-1] == "ValueError: broken ␛[2J"
    assert "ValueError: broken \x1b[2J" in json.loads(document)["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_cannot_forge_a_line(log: Log, form: Any) -> None:
    logs.setup("warning", form)
    logging.getLogger("pipeline.x").warning("%s", "a\n2026-11-30 ERROR forged\r\x1b[31m")
    assert len(log.lines) == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_is_never_written(log: Log, form: Any) -> None:
    logs.setup("debug", form, redact=Redaction([SECRET, "", "longer-than-hunter", "geheimnüß"]))
    client = logging.getLogger("kafka.net.connection")
    client.debug("Request: %s", {"sasl_plain_password": SECRET})
    client.error("the password is %s!", SECRET)
    client.debug("auth_bytes=b'\\x00me\\x00it', correlation_id=3")
    client.debug("SaslAuthenticateRequest(version=2, auth_bytes=b'n,,n=me,r=abc\"def')")
    client.debug("%s Send: %r", "node", bytearray(b"\\0\\0the record and the proof"))
    client.debug("%s", "geheimnüß".encode())
    client.error("longer-than-hunter", exc_info=raised(ValueError(SECRET)))
    written = "\n".join(log.lines)
    assert written.count(logs.MASK) == 7
    for told in ("hunter", "x00me", "n=me", "the proof", "geheimn"):
        assert told not in written
    assert "correlation_id=3" in written


def test_the_clients_errors_are_news_for_a_command_and_warnings_for_a_worker(log: Log) -> None:
    client = logging.getLogger("kafka.net.manager")
    for settings, expected in (
        ({"level": "warning"}, []),
        ({"level": "info"}, ["error INFO", "warning INFO"]),
        ({"level": "warning", "client_errors": logging.WARNING}, ["error WARNING"]),
        ({"level": "error", "client_errors": logging.WARNING}, []),
        ({"level": "debug"}, ["error INFO", "warning INFO", "news DEBUG", "debug DEBUG"]),
    ):
        logs.setup(**settings)
        before = len(log.lines)
        client.error("error")
        client.warning("warning")
        client.info("news")
        client.debug("debug")
        told = [line.split() for line in log.lines[before:]]
        assert [f"{words[-1]} {words[2]}" for words in told] == expected


def test_what_the_client_repeats_is_said_once_and_counted(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("pipeline.logs.time.monotonic", lambda: now[0])
    logs.setup("info", client_errors=logging.WARNING)
    client = logging.getLogger("kafka.net.manager")

    def lose(times: int) -> None:
        for number in range(times):
            client.error("connection %d lost", number, exc_info=raised(OSError("away")))

    lose(3)
    client.error("another line")
    assert [line.split(": ", 1)[1] for line in log.lines] == ["connection 0 lost", "another line"]
    now[0] += logs.SELDOM_S
    lose(1)
    assert log.lines[-1].endswith(
        " WARNING kafka.net.manager: connection 0 lost (and 2 more like it)"
    )


def test_what_was_to_be_read_is_said_at_every_level(log: Log) -> None:
    handler = logs.setup("error", "json", redact=Redaction(["pw1"]))
    logs.say(handler, "worker w listens; pw1")
    (line,) = log.documents
    assert (line["level"], line["logger"]) == ("info", "foldstream")
    assert line["message"] == "worker w listens; ***"


def test_our_own_lines_are_neither_changed_nor_left_out(log: Log) -> None:
    logs.setup("info")
    for name in ("pipeline.loop", "kafkaesque"):
        for _ in range(3):
            logging.getLogger(name).error("again")
    assert len(log.lines) == 6
    assert all(" ERROR " in line for line in log.lines)
