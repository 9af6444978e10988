"""The command line: exit codes, what stands on which stream, and errors of one line."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline import cli
from pipeline.commands import brokers
from pipeline.config import Config
from pipeline.simulate import simulate

USER = (
    b'{"type":"user/message","seq":%d,"time":1,"surfaceOp":"append","data":{"id":"m%d","role":'
    b'"user","content":[{"type":"text","text":"%s"}],"source":{"kind":"user"}}}\n'
)
NOWHERE = ("--bootstrap", "127.0.0.1:1", "--client-option", "bootstrap_timeout_ms=300")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("FOLDSTREAM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(USER % (n, n, b"text %d" % n) for n in range(3)))
    return path


class Ran(msgspec.Struct):
    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> Ran:
    try:
        code = cli.main([str(arg) for arg in argv])
    except SystemExit as ended:  # the parser's own way out
        code = int(ended.code or 0)
    return Ran(code, *capsys.readouterr())


def commands() -> dict[str, argparse.ArgumentParser]:
    (group,) = [a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(group.choices)


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Those of a command, and of the commands below it."""
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [each for below in action.choices.values() for each in actions(below)]
    return found


# --- the parser -----------------------------------------------------------------------------------


def test_every_command_is_known_by_its_module() -> None:
    assert list(commands()) == list(cli.MODULES)


@pytest.mark.parametrize("command", cli.MODULES)
def test_help_teaches_with_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    ran = run(capsys, command, "--help")
    assert ran.code == 0
    assert f"example:\n  " in ran.out  # noqa: F541
    assert f"foldstream {command}" in ran.out.split("example:")[1]
    assert "--log-level" in ran.out
    assert all(len(line) <= 100 for line in ran.out.splitlines())


def test_every_option_is_a_key_of_the_configuration_and_every_key_an_option() -> None:
    options = {
        action.dest
        for parser in commands().values()
        for action in actions(parser)
        if action.option_strings and action.dest not in ("help", "config")
    }
    options -= {"skip", "fix"}  # what is done about one record is no setting
    options -= {"label", "topics", "family"}  # nor is what one question asks for
    options = {name for name in options if not name.startswith("filter_")}
    assert options == {field.name for field in msgspec.structs.fields(Config)}


def test_an_option_not_given_leaves_the_word_to_the_environment(
    capsys: pytest.CaptureFixture[str], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_bytes(log.read_bytes() + b"{oops\n")
    monkeypatch.setenv("FOLDSTREAM_STRICT", "true")
    assert run(capsys, "fold", log).code == 3
    assert run(capsys, "fold", log, "--no-strict").code == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["fold"], "required: PATH"),
        (["fold", "x", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["fold", "x", "--strcit"], "--strcit; did you mean --strict?"),
        (["fold", "x", "--from-sq=3"], "--from-sq=3; did you mean --from-seq?"),
        (["nonsense"], "invalid choice: 'nonsense'; one of "),
        (["foldd"], "invalid choice: 'foldd'; did you mean fold?"),
        (["topics", "crate"], "invalid choice: 'crate'; did you mean create?"),
        (["pages", "x", "--max-messages", "0"], "--max-messages: Expected `int` >= 1"),
        (["fold", "-", "-"], "standard input can be read once"),
        (["run", "--client-option", "x"], "write KEY=VALUE"),
        (["up", "--broker", "zookeeper"], "say auto, kafka, memory or HOST:PORT"),
        (["config", "--config", "none.toml"], "none.toml: no such configuration file"),
    ],
)
def test_wrong_usage_is_exit_2_and_one_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    ran = run(capsys, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_the_version_is_that_of_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "--version")
    assert ran.code == 0
    assert ran.out.startswith("foldstream ")


# --- files ----------------------------------------------------------------------------------------


def test_fold_prints_one_document_per_file_in_the_order_given(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    ran = run(capsys, "fold", "--json", tmp_path / "none.jsonl", log)
    assert ran.code == 0
    assert [doc["events"] for doc in ran.documents] == [0, 3]
    assert ran.documents[0]["faults"][0]["reason"] == "unreadable"
    assert "none.jsonl: No such file" in ran.err


def test_fold_of_nothing_readable_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    ran = run(capsys, "fold", "--json", "none.jsonl")
    assert ran.code == 3
    assert len(ran.documents) == 1
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", ["fold", "show", "surface", "pages"])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty: there is no whole line in it"),
        (b"hello\nworld\n", "line 1: Expecting value at character 0; is this a session log?"),
        (b"\xff\x80\n" * 99, "is this a session log?"),
        (b'{"a":1}\n', "line 1: type is no non-empty string; is this a session log?"),
        (b'{"type":"sess', "empty: "),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_log_is_exit_3_and_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, data: bytes | None, why: str
) -> None:
    path = tmp_path / "what.jsonl"
    if data is not None:
        path.write_bytes(data)
    ran = run(capsys, command, path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert f"{path}: " in ran.err
    assert why in ran.err


def test_a_device_is_empty_and_seqs_that_are_not_there_are_no_trouble(
    capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    assert run(capsys, "fold", "/dev/null").code == 3
    log.write_bytes(log.read_bytes() + b"{oops\n" + USER % (3, 3, b"x"))
    assert run(capsys, "fold", log, "--from-seq", 100).code == 0


def test_faults_beyond_the_first_twenty_are_counted(
    capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    log.write_bytes(log.read_bytes() + b"{oops\n" * 25 + USER % (3, 3, b"x"))
    ran = run(capsys, "fold", log)
    assert ran.out.count(": not-json: ") == 20
    assert ran.out.endswith("  … and 5 more (--json has them all)\n")


def test_strict_refusals_are_exit_3_and_others_are_not(
    capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    log.write_bytes(log.read_bytes() + b"{oops\n" + USER % (3, 3, b"x"))
    ran = run(capsys, "fold", log)
    assert ran.code == 0
    assert "line 4: not-json" in ran.out
    assert run(capsys, "fold", "--strict", log).code == 3


def test_fold_keeps_the_seqs_asked_for(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    (got,) = run(capsys, "fold", log, "--json", "--from-seq", 1, "--to-seq", 1).documents
    assert got["surface"]["nodes"] == [1]


def test_pages_walk_backwards(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    ran = run(capsys, "pages", log, "--json", "--max-messages", 2, "--before", 2)
    assert [(page["first"], page["last"]) for page in ran.documents] == [(0, 1)]
    ran = run(capsys, "pages", log, "--max-messages", 2)
    assert [line.split()[0] for line in ran.out.splitlines()] == ["1", "0"]
    assert run(capsys, "pages", "none.jsonl").code == 3


def test_show_prints_rows_and_hides_auxiliary_ones(
    capsys: pytest.CaptureFixture[str], log: Path
) -> None:
    log.write_bytes(log.read_bytes() + USER % (9, 9, b"after \\u001b[2J the gap"))
    ran = run(capsys, "show", log)
    assert "text 2" in ran.out
    assert "gap" not in ran.out.replace("the gap", "")
    assert "after ␛[2J the gap" in ran.out
    assert "1 auxiliary rows not shown" in ran.err
    assert "events 3 to 8 are unknown" in run(capsys, "show", log, "--auxiliary").out
    kinds = [row["kind"] for row in run(capsys, "show", log, "--json").documents]
    assert kinds == ["user"] * 4


def test_surface_is_as_it_was_at_a_seq(capsys: pytest.CaptureFixture[str], log: Path) -> None:
    (got,) = run(capsys, "surface", log, "--json", "--at", 1).documents
    assert got["nodes"] == [0, 1]
    ran = run(capsys, "surface", log)
    assert ran.out.count("user/message") == 3


def test_a_session_directory_stands_for_its_newest_transcript(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    assert run(capsys, "simulate", "--sessions", 2, "--to", root, "--seed", 5).code == 0
    folder = next(path.parent for path in root.rglob("*.jsonl"))
    (got,) = run(capsys, "fold", folder, "--json").documents
    assert got["session"] == folder.name
    assert got["events"] > 100
    ran = run(capsys, "fold", root)
    assert ran.code == 1
    assert "2 sessions in this folder; name one of them" in ran.err


def test_a_folder_of_several_logs_says_which_there_are(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.jsonl").write_bytes(log.read_bytes())
    for command in ("show", "fold", "surface", "pages"):
        ran = run(capsys, command, tmp_path)
        assert (ran.code, ran.out) == (1, "")
        assert f"name one of them: {log}, {tmp_path / 'other.jsonl'}\n" in ran.err
    ran = run(capsys, "up", "--broker", "memory", "--once", "--ingest", tmp_path)
    assert "verify: ok (2 sessions" in ran.out


def test_simulate_makes_the_same_files_from_the_same_seed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        run(capsys, "simulate", "--sessions", 3, "--seed", 9, "--to", tmp_path / name)
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.jsonl")}
        for root in (tmp_path / "a", tmp_path / "b")
    )
    assert len(first) == 3
    assert first == second


def test_simulate_damages_what_it_is_asked_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    faults = ("--faults", "bad-json,wrong-op")
    run(capsys, "simulate", "--sessions", 6, *faults, "--to", tmp_path)
    paths = sorted(tmp_path.rglob("*.jsonl"))
    documents = run(capsys, "fold", "--json", *paths).documents
    reasons = {fault["reason"] for document in documents for fault in document["faults"]}
    assert {"not-json", "surfaceop-invalid"} <= reasons
    assert run(capsys, "simulate", "--faults", "no-such", "--to", tmp_path).code == 2


# --- config ---------------------------------------------------------------------------------------


def test_config_prints_what_is_in_effect_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDSTREAM_CLIENT_OPTION_SASL_PLAIN_PASSWORD", "hunter2")
    ran = run(capsys, "config", "--prefix", "x.")
    assert 'prefix = "x."  # flag' in ran.out
    assert "hunter2" not in ran.out + ran.err
    ran = run(capsys, "config", "--json")
    assert ran.documents[0]["client_options"] == {"sasl_plain_password": "***"}


# --- brokers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["ingest", "nowhere"], ["up", "--ingest", "nowhere"]])
def test_a_folder_that_is_not_there_is_exit_1(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    ran = run(capsys, *argv)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "foldstream: nowhere: no such file or folder; name a folder with session logs\n"
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["topics"],
        ["topics", "create"],
        ["run"],
        ["verify"],
        ["deadletter", "list"],
        ["show", "some-session"],
        ["surface", "some-session"],
        ["ingest", "."],
        ["simulate"],
    ],
)
def test_an_unreachable_broker_is_exit_1_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    ran = run(capsys, *argv, *NOWHERE)
    assert (ran.code, ran.out) == (1, "")
    assert "no Kafka broker answers at 127.0.0.1:1" in ran.err
    assert "foldstream up" in ran.err
    assert ran.err.count("\n") == 1


def test_without_java_auto_takes_memory_and_kafka_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "unavailable", lambda: "no Java found; install one")
    ran = run(capsys, "up", "--once")
    assert ran.code == 0
    assert ran.out == "broker: memory (no local Kafka: no Java found; install one)\n"
    ran = run(capsys, "up", "--once", "--broker", "kafka")
    assert ran.code == 1
    assert "no Java found; install one" in ran.err


@pytest.mark.parametrize(
    ("argv", "environ", "code", "message"),
    [
        (["--bootstrap", "127.0.0.1:1"], {}, 1, "no Kafka broker answers at 127.0.0.1:1"),
        (["--bootstrap", "127.0.0.1:1", "--broker", "memory"], {}, 2, "are two brokers"),
        ([], {"FOLDSTREAM_BOOTSTRAP": "127.0.0.1:1"}, 1, "answers at 127.0.0.1:1"),
        (["--broker", "memory"], {"FOLDSTREAM_BOOTSTRAP": "127.0.0.1:1"}, 0, ""),
        (["--bootstrap", "127.0.0.1:1"], {"FOLDSTREAM_BROKER": "memory"}, 1, "127.0.0.1:1"),
    ],
)
def test_up_takes_the_broker_that_bootstrap_names(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    environ: dict[str, str],
    code: int,
    message: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ran = run(capsys, "up", "--once", *argv, *NOWHERE[2:])
    assert ran.code == code
    assert message in ran.err


def test_the_demo_proves_itself_and_ends(
    capsys: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    ran = run(capsys, "up", "--broker", "memory", "--demo", "--once", "--sessions", 9)
    assert ran.code == 0, ran.err
    counts = dict(line.split()[:2] for line in ran.out.splitlines() if line.endswith(" records"))
    assert int(counts["sessions.events"]) > 9 * 100
    assert counts["sessions.overview"] != "0"
    assert "dead letters: 3\n" in ran.out
    assert "transcript of sim-" in ran.out
    assert "what the model is sent" in ran.out
    assert ran.out.splitlines()[-1].startswith("verify: ok (9 sessions")
    assert "ingest: " in ran.err
    assert "3 of the sessions were damaged on purpose" in ran.err


def test_up_says_what_it_expected_where_there_is_no_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("x")
    ran = run(capsys, "up", "--broker", "memory", "--once", "--ingest", tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "no session log in it; name a folder with .jsonl" in ran.err
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    ran = run(capsys, "up", "--broker", "memory", "--once", "--ingest", tmp_path)
    assert ran.code == 3
    assert "1 unreadable files" in ran.out


def test_up_ingests_a_folder_of_plain_logs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for seed in (1, 2):
        folder = tmp_path / "logs" / f"session-{seed}"
        folder.mkdir(parents=True)
        lines = simulate(seed, events=30).lines[1:]  # without its header
        (folder / "log.jsonl").write_bytes(b"\n".join([*lines, b""]))
        (folder / "notes.json").write_text("{}")
    ran = run(capsys, "up", "--broker", "memory", "--once", "--ingest", tmp_path / "logs")
    assert ran.code == 0
    assert "2 sessions, " in ran.out
    assert "verify: ok (2 sessions" in ran.out


# --- as a process ---------------------------------------------------------------------------------


def process(
    *argv: object,
    stdin: Any = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipeline.cli", *map(str, argv)]
    environ = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    return subprocess.Popen(command, env=environ, stdin=stdin, stdout=stdout, stderr=stderr)


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    path.write_bytes(b"".join(USER % (n, n, b"x" * 500) for n in range(2000)))
    with process("fold", "--json", path) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(10) == b'{"path":"/'
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 0


@pytest.mark.parametrize("command", ["show", "surface", "pages", "fold", "help"])
def test_a_pipe_that_is_closed_is_success(tmp_path: Path, command: str) -> None:
    path = tmp_path / "big.jsonl"
    path.write_bytes(b"".join(USER % (n, n, b"x" * 50) for n in range(500)))
    argv = ["fold", "--help"] if command == "help" else [command, path]
    reading, writing = os.pipe()
    os.close(reading)
    with process(*argv, stdout=writing) as child:
        os.close(writing)
        _, err = child.communicate()
    assert (child.returncode, b"Broken" in err, b"Traceback" in err) == (0, False, False)


def test_standard_input_is_folded(log: Path) -> None:
    with log.open("rb") as stream, process("fold", "--json", "-", stdin=stream) as child:
        out, _ = child.communicate()
    assert json.loads(out)["events"] == 3
    assert child.returncode == 0


def test_what_up_found_it_says_once(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"".join(USER % (n, n, b"x") for n in range(3)) + b'{"torn')
    (folder / "b.jsonl").mkdir()
    (folder / "c.jsonl").symlink_to(tmp_path / "nowhere")
    with process("up", "--broker", "memory", "--ingest", folder) as child:
        assert child.stdout is not None
        while b"Ctrl-C" not in child.stdout.readline():
            pass
        time.sleep(1.5)  # a pass of the follower
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 0, err
    notes = [line for line in err.splitlines() if line.startswith(b"note: ")]
    assert len(notes) == len(set(notes)) >= 1
    assert err.count(b"ingest: ") == 1


def test_up_sends_what_sessions_write_while_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    with process("up", "--broker", "memory", "--ingest", folder) as child:
        assert child.stdout is not None
        assert b"0 sessions" in child.stdout.readline() + child.stdout.readline()
        while b"Ctrl-C" not in child.stdout.readline():
            pass
        late = folder / "late.jsonl"
        late.write_bytes(USER % (0, 0, b"x") + b'{"torn')  # which is noted
        assert child.stderr is not None
        while b"late" not in child.stderr.readline():
            pass
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
    assert child.returncode == 0


def test_a_page_beside_the_usual_port_says_how_it_is_reached() -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # by somebody else: just as well
            taken.bind(("127.0.0.1", 8080))
            taken.listen()
        with process("up", "--broker", "memory") as child:
            assert child.stdout is not None
            found = next(line for line in child.stdout if b"dashboard: " in line)
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
    page = found.split()[-1]
    assert b"127.0.0.1:8080 is taken, so: foldstream watch --gateway " + page in err


def test_ctrl_c_stops_all_cleanly() -> None:
    with process("up", "--broker", "memory") as child:
        assert child.stdout is not None
        while b"Ctrl-C" not in child.stdout.readline():
            pass
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=20)
    assert child.returncode == 0, err
    assert b"Traceback" not in err
    assert time.monotonic() - started < 10
