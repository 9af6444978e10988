"""The local broker without Kafka: a stand-in ``java`` says what the real one would.

What a real Kafka does is tests/integration/test_broker.py.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pipeline import broker, broker_jars
from pipeline.broker import BrokerError, Cluster, NoKafkaHere, local_kafka, unavailable, up
from pipeline.broker_cluster import Process, State
from pipeline.errors import Fatal

Java = Callable[[str], Path]

JAVA_17 = """
if [ "$1" = -version ]; then echo 'openjdk version "17.0.15" 2025-04-15' >&2; exit 0; fi
case "$*" in *StorageTool*) exit 0;; esac
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Makes the one Java of the machine: a shell script with that body."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("KAFKA_LOCAL_VERSION", raising=False)
    monkeypatch.setattr(broker_jars, "_JVMS", tmp_path / "jvms")
    monkeypatch.setattr("shutil.which", _only_in(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(body: str) -> Path:
        home = tmp_path / "java"
        script(home / "bin" / "java", body)
        monkeypatch.setenv("JAVA_HOME", str(home))
        return home

    return make


@pytest.fixture
def jars(tmp_path: Path) -> None:
    (tmp_path / "cache" / "foldstream" / "kafka" / "4.4.0" / "libs").mkdir(parents=True)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _only_in(folder: Path) -> Callable[[str], str | None]:
    return lambda name: str(folder / name) if (folder / name).exists() else None


def dead_process() -> Process:
    with subprocess.Popen(["true"]) as process:
        gone = Process.of(process.pid)
    assert not gone.alive
    return gone


# --- Java and Maven -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('java version "21" 2023-09-19 LTS', None),
        ('openjdk version "11.0.2" 2019-01-15', "Java 11 .* is too old"),
        ('java version "1.8.0_292"', "Java 8 .* is too old"),
        ("Unable to locate a Java Runtime", "no Java found"),
    ],
)
def test_java_version(java: Java, jars: None, told: str, wrong: str | None) -> None:
    java(f"echo '{told}' >&2")
    if wrong is None:
        assert unavailable() is None
    else:
        with pytest.raises(NoKafkaHere, match=f"{wrong}.*; install a Java runtime 17 or newer"):
            broker_jars.find_java()


def test_no_java_at_all_is_one_line_with_the_remedy(java: Java, jars: None) -> None:
    reason = unavailable()
    assert reason is not None
    assert "\n" not in reason
    assert "no Java found; install" in reason


def test_no_maven_matters_only_until_the_jars_are_there(java: Java, tmp_path: Path) -> None:
    java(JAVA_17)
    assert "no Maven (mvn) found; install Maven" in (unavailable() or "")
    with pytest.raises(NoKafkaHere):
        broker_jars.fetch(lambda _: None)
    (tmp_path / "cache" / "foldstream" / "kafka" / "4.4.0").mkdir(parents=True)
    assert unavailable() is None


def test_a_failed_fetch_says_maven_s_first_error_and_leaves_no_cache(
    java: Java, tmp_path: Path
) -> None:
    java(JAVA_17)
    script(
        tmp_path / "bin" / "mvn",
        "echo '[INFO] Scan'; echo '[ERROR] Could not resolve kafka'; echo '[ERROR] Help'; exit 1",
    )
    with pytest.raises(BrokerError, match=r"\(Could not resolve kafka\); check the network"):
        broker_jars.fetch(lambda _: None)
    assert list((tmp_path / "cache" / "foldstream" / "kafka").iterdir()) == []


def test_a_fetch_fills_the_cache_once_and_says_so(java: Java, tmp_path: Path) -> None:
    java(JAVA_17)
    copy = 'for a; do case $a in -Dout*) mkdir "${a#*=}"; echo > "${a#*=}/kafka.jar";; esac; done'
    script(tmp_path / "bin" / "mvn", f"echo run >> {tmp_path}/runs; {copy}")
    said: list[str] = []
    home = broker_jars.fetch(said.append)
    assert broker_jars.fetch(said.append) == home
    assert (home / "libs" / "kafka.jar").exists()
    assert (tmp_path / "runs").read_text() == "run\n"
    assert "fetching Apache Kafka 4.4.0" in said[0]
    assert str(home) in said[-1]


# --- ports ----------------------------------------------------------------------------------------


def test_a_port_in_use_is_named(java: Java, jars: None, tmp_path: Path) -> None:
    java(JAVA_17)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"port {port} is not free .*choose another port"):
            up(tmp_path / "k", port=port)
    assert not (tmp_path / "k").exists()


def test_the_controller_s_port_is_looked_at_too(
    java: Java, jars: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(JAVA_17)
    monkeypatch.setattr(broker, "_trouble", {19_330: None, 19_331: "taken"}.get)
    with pytest.raises(BrokerError, match=r"port 19331 is not free \(taken; .* 19330 to 19331\)"):
        up(tmp_path / "k", port=19_330)


def test_no_such_port(java: Java, jars: None, tmp_path: Path) -> None:
    java(JAVA_17)
    with pytest.raises(BrokerError, match="there is no such port"):
        up(tmp_path / "k", port=70_000)


# --- nodes ----------------------------------------------------------------------------------------


def test_a_node_that_dies_says_why_and_leaves_nothing(
    java: Java, jars: None, tmp_path: Path
) -> None:
    java(JAVA_17 + "echo starting; echo 'java.io.IOException: No space left on device'; exit 1")
    with pytest.raises(BrokerError, match="IOException: No space left on device"), local_kafka():
        pytest.fail("a dead node was taken for a broker")
    assert not list(tmp_path.glob("foldstream-kafka-*"))


def test_unformattable_storage_is_one_line(java: Java, jars: None, tmp_path: Path) -> None:
    java(
        JAVA_17.replace(
            "exit 0;; esac", "echo 'at X' >&2; echo 'disk is broken' >&2; exit 1;; esac"
        )
    )
    with pytest.raises(BrokerError, match=r"cannot be made: disk is broken$"), local_kafka():
        pytest.fail("started without storage")


def test_a_folder_that_cannot_be_made(java: Java, jars: None, tmp_path: Path) -> None:
    java(JAVA_17)
    (tmp_path / "file").touch()
    with pytest.raises(BrokerError, match=r"cannot keep its data.*choose another folder"):
        up(tmp_path / "file" / "k")


def test_an_interrupted_start_takes_its_nodes_down(
    java: Java, jars: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(JAVA_17 + "exec sleep 60")
    pids: list[int] = []

    def interrupt(port: int) -> set[int]:
        state = msgspec.json.decode((tmp_path / "k" / "state.json").read_bytes(), type=State)
        pids.extend(process.pid for process in state.nodes.values())
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.broker_cluster._brokers_seen_by", interrupt)
    with pytest.raises(KeyboardInterrupt):
        up(tmp_path / "k")
    assert len(pids) == 1
    assert not Path(f"/proc/{pids[0]}").exists()
    assert not (tmp_path / "k").exists()


# --- whose processes ------------------------------------------------------------------------------


def cluster(folder: Path, owner: Process | None, node: Process, port: int = 19_330) -> Cluster:
    folder.mkdir()
    state = State(port, 1, owner=owner, nodes={1: node})
    (folder / "state.json").write_bytes(msgspec.json.encode(state))
    return Cluster.open(folder)


def test_a_reused_pid_is_never_signalled(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    stranger = Process(sleeper.pid, "1")  # the number of ours, the birth of another
    found = cluster(tmp_path / "k", None, stranger)
    assert not found.running
    with pytest.raises(BrokerError, match="does not run"):
        found.signal(1, signal.SIGKILL)
    found.down()
    assert sleeper.poll() is None


def test_down_ends_a_node_even_if_paused_and_keeps_other_files(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    found = cluster(tmp_path / "k", None, Process.of(sleeper.pid))
    (tmp_path / "k" / "mine").touch()
    found.signal(1, signal.SIGSTOP)
    found.down()
    assert sleeper.wait(5) == -signal.SIGKILL
    assert [path.name for path in (tmp_path / "k").iterdir()] == ["mine"]


def test_what_a_killed_process_left_is_cleared_by_the_next(
    java: Java, jars: None, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    java(JAVA_17 + "exit 1")
    cluster(tmp_path / "foldstream-kafka-left", dead_process(), Process.of(sleeper.pid))
    mine = cluster(tmp_path / "foldstream-kafka-mine", Process.of(os.getpid()), dead_process())
    with pytest.raises(BrokerError, match="stopped while it started"), local_kafka():
        pytest.fail("a dead node was taken for a broker")
    assert sleeper.wait(5) == -signal.SIGKILL
    assert not (tmp_path / "foldstream-kafka-left").exists()
    assert mine.folder.exists()


def test_a_directory_in_use_is_refused(
    java: Java, jars: None, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    java(JAVA_17)
    cluster(tmp_path / "k", Process.of(os.getpid()), Process.of(sleeper.pid))
    with (
        pytest.raises(BrokerError, match=r"in use by a Kafka on 127.0.0.1:19330; stop it first"),
        local_kafka(directory=tmp_path / "k"),
    ):
        pytest.fail("two brokers over one directory")
    assert sleeper.poll() is None


def test_another_number_of_nodes_is_refused(java: Java, jars: None, tmp_path: Path) -> None:
    java(JAVA_17)
    cluster(tmp_path / "k", None, dead_process())
    with pytest.raises(BrokerError, match=r"holds 1 node\(s\), not 3"):
        up(tmp_path / "k", brokers=3)


def test_a_spoilt_state_file_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(Fatal, match=r"state.json cannot be read .*; remove it"):
        Cluster.open(tmp_path)


# --- the developers' command ----------------------------------------------------------------------


def test_command_failures_are_one_line_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert broker.main(["down", "--dir", str(tmp_path / "none")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"broker: no Kafka in {tmp_path}/none; start one there first\n"


@pytest.mark.parametrize("argv", [["kill"], ["up", "1"], ["run"], ["up", "--", "x"], ["fly"]])
def test_command_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        broker.main(argv)
    assert stop.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_command_status_exits_1_while_a_node_is_missing(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(tmp_path / "up", None, Process.of(sleeper.pid))
    cluster(tmp_path / "gone", None, dead_process())
    assert broker.main(["status", "--dir", str(tmp_path / "up")]) == 0
    assert capsys.readouterr().out == f"1 127.0.0.1:19330 pid={sleeper.pid}\n"
    assert broker.main(["status", "--dir", str(tmp_path / "gone")]) == 1
    assert broker.main(["kill", "1", "--dir", str(tmp_path / "up")]) == 0
    assert sleeper.wait(5) == -signal.SIGKILL
