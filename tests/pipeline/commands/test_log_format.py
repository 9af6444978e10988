"""`--log-format json`: all of standard error is JSON, whoever speaks; and no secret in either."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli, logs
from pipeline.commands.terminal import Terminal
from pipeline.commands.workers import observed, stored
from pipeline.config import Config
from pipeline.errors import Fatal
from pipeline.observe import Observers

PASSWORD = "s3cr3t-pw"
NOWHERE = ("--bootstrap", "127.0.0.1:1", "--client-option", "bootstrap_timeout_ms=300")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No configuration of somebody's; the log as before."""
    monkeypatch.chdir(tmp_path)
    root, client = logging.getLogger(), logging.getLogger(logs.CLIENT)
    before = (root.level, list(root.handlers), client.level)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    client.setLevel(before[2])


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_failure_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topics", "check", *NOWHERE, "--log-format", "json"]) == 1
    (line,) = documents(capsys.readouterr().err)
    assert (line["level"], line["logger"]) == ("error", "foldstream")
    assert line["message"].startswith("no Kafka broker answers at 127.0.0.1:1")
    assert cli.main(["topics", "check", *NOWHERE]) == 1
    err = capsys.readouterr().err
    assert err.startswith("foldstream: no Kafka broker answers")
    assert err.count("\n") == 1


def test_everything_said_is_json_the_clients_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--log-format", "json", "--log-level", "info")
    assert cli.main(["run", "--once", *NOWHERE, *options]) == 1
    lines = documents(capsys.readouterr().err)
    assert {line["logger"].split(".")[0] for line in lines} == {"kafka", "foldstream"}
    assert {line["level"] for line in lines} == {"info", "error"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("level", ["warning", "debug"])
def test_a_password_is_written_nowhere(
    capsys: pytest.CaptureFixture[str], form: str, level: str
) -> None:
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": PASSWORD,
        "proxy_url": f"http://me:{PASSWORD}2@127.0.0.1:1",
    }
    given = [x for k, v in options.items() for x in ("--client-option", f"{k}={v}")]
    argv = ["topics", "check", *NOWHERE, *given, "--log-format", form, "--log-level", level]
    assert cli.main(argv) == 1
    written = capsys.readouterr()
    assert PASSWORD not in written.out + written.err
    assert cli.main(["config", *given]) == 0
    assert PASSWORD not in capsys.readouterr().out


def test_a_line_that_a_person_reads_is_redacted_in_both_forms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for form in ("text", "json"):
        terminal = Terminal()
        terminal.log(Config(log_format=form, client_options={"sasl_plain_password": PASSWORD}))
        terminal.say(f"it is {PASSWORD}\x1b[2J")
    first, second = capsys.readouterr().err.splitlines()
    assert first == "it is ***␛[2J"
    assert json.loads(second)["message"] == "it is ***\x1b[2J"


# --- --listen -------------------------------------------------------------------------------------


def test_nothing_is_listened_on_unless_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with observed(Config(), Terminal()) as (observer, _):
        assert not isinstance(observer, Observers)
    assert capsys.readouterr().err == ""


def test_where_it_listens_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with observed(Config(listen="0"), Terminal()) as (observer, _):
        assert isinstance(observer, Observers)
        said = capsys.readouterr().err
        assert said.startswith("http://127.0.0.1:")
        taken = said.removeprefix("http://").partition("/")[0]
        with pytest.raises(Fatal, match="name a free port"):  # noqa: SIM117
            with observed(Config(listen=taken), Terminal()):
                pass


def test_the_bytes_of_the_local_store_are_those_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "partition-0").mkdir()
    (tmp_path / "partition-0" / "a.sst").write_bytes(b"x" * 1000)
    (tmp_path / "partition-0" / "gone.sst").symlink_to(tmp_path / "nowhere")
    (tmp_path / "state.json").write_bytes(b"x" * 10)
    assert stored(tmp_path) == 1010
    assert stored(tmp_path / "none") == 0
    assert stored(None) == 0


def test_an_address_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--listen", "somewhere", *NOWHERE]) == 2
    assert "--listen 'somewhere' is no address" in capsys.readouterr().err
