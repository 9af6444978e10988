"""The contract over the local store, and what it promises beyond: it survives its process, kills,
damage, full disks and other people's files, or says what is wrong and begins anew."""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from pipeline.errors import Fatal, StoreDamaged
from pipeline.store import LocalStore
from pipeline.store.folder import state_folder
from pipeline.store.local import META
from pipeline.store.rocks import Memory, StoreBroken, StoreFull, open_database
from pipeline.store.rocks import batch as rocks_batch
from pipeline.store.rocks import write as rocks_write
from tests.contracts.local_store import ORIGIN, batch, contents, held, local, writer
from tests.contracts.store_contract import StoreContract

FEW = 6  #: batches; some 300 KB


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    store = local(tmp_path / "state")
    yield store
    store.close()


class TestLocalStore(StoreContract):
    pass


def filled(folder: Path, batches: int = FEW) -> None:
    store = local(folder)
    for number in range(batches):
        store.write(0, batch(number), number + 1)
        store.write(1, batch(number), number + 1)
    store.close()


def opens(folder: Path, partition: int = 0) -> int | None:
    store = local(folder)
    try:
        return store.open(partition)
    finally:
        store.close()


def test_it_is_there_again(tmp_path: Path) -> None:
    filled(tmp_path)
    store = local(tmp_path)
    assert store.open(0) == FEW
    assert held(store, 0) == contents(FEW)
    assert store.sessions(0) == len(contents(FEW))
    store.release(0)
    assert store.open(0) == FEW
    store.close()
    assert opens(tmp_path) == FEW


def test_a_wiped_one_is_not(tmp_path: Path) -> None:
    filled(tmp_path)
    store = local(tmp_path)
    store.wipe(0)
    store.close()
    assert opens(tmp_path, 0) is None
    assert opens(tmp_path, 1) == FEW


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_moment_leaves_states_of_exactly_their_position(
    tmp_path: Path, seed: int
) -> None:
    """Several times over the same store; states, count and position are of one batch each time."""
    chance = random.Random(seed)
    reached = 0
    for _ in range(3):
        process = writer(tmp_path, 2, reached)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            process.stdout.read(1)
        if chance.random() < 0.5:
            process.stdout.read(chance.randrange(200))
        killed(process)
        store = local(tmp_path)
        for partition in (0, 1):
            position = store.open(partition) or 0
            assert held(store, partition) == contents(position), (partition, position)
            assert store.sessions(partition) == len(contents(position))
            reached = max(reached, position)
        store.close()


# --- damage ---------------------------------------------------------------------------------------


def damages(path: Path, chance: random.Random) -> str:
    """One file of a partition missing, cut, or with one byte changed."""
    files = sorted(each for each in path.iterdir() if each.is_file())
    file = chance.choice(files)
    size = file.stat().st_size
    kind = chance.choice(["missing", "cut", "flipped"])
    if kind == "missing":
        file.unlink()
    elif kind == "cut":
        os.truncate(file, size * chance.randrange(100) // 100)
    elif size:
        data = bytearray(file.read_bytes())
        data[chance.randrange(size)] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
    return f"{kind} {file.name}"


def judged(store: LocalStore, partition: int, what: str) -> str:
    """What is held is right, or said to be damaged; never wrong."""
    position = store.open(partition)
    if position is None:
        assert store.sessions(partition) == 0, what
        assert held(store, partition) == {}, what
        return "wiped"
    expected = contents(position)
    try:
        assert held(store, partition) == expected, what
        assert store.sessions(partition) == len(expected), what
    except StoreDamaged:
        store.wipe(partition)
        assert store.open(partition) is None
        return "damaged"
    return "unharmed"


def test_damage_is_noticed_and_is_its_partitions_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path / "whole", 12)
    outcomes = set()
    for seed in range(60):
        folder = tmp_path / str(seed)
        shutil.copytree(tmp_path / "whole", folder)
        what = damages(folder / "partition-0", random.Random(seed))
        caplog.clear()
        store = local(folder)
        outcome = judged(store, 0, what)
        outcomes.add(outcome)
        if outcome == "wiped":
            (record,) = (r for r in caplog.records if r.levelno >= logging.WARNING)
            assert "read anew from the state topic" in record.getMessage()
        assert store.open(1) == 12, what
        assert held(store, 1) == contents(12), what
        for number in range(3):  # and it is of use again
            store.write(0, batch(number), 12 + number)
        store.close()
        shutil.rmtree(folder)
    assert outcomes == {"wiped", "damaged", "unharmed"}


def test_a_folder_that_is_something_else_is_replaced(tmp_path: Path) -> None:
    partition = tmp_path / "partition-0"
    partition.mkdir()
    (partition / "notes.txt").write_text("not a store")
    (partition / "CURRENT").write_text("nor this")
    store = local(tmp_path)
    assert store.open(0) is None
    store.write(0, batch(0), 1)
    store.close()
    assert opens(tmp_path) == 1


# --- identity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"cluster": "cluster-2"}, "of another cluster"),
        ({"topic": "topic-2"}, "made anew"),
        ({"application": "other"}, "of partition 0 of application 'foldstream'"),
    ],
)
def test_what_was_written_for_something_else_is_wiped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, str], reason: str
) -> None:
    filled(tmp_path)
    store = local(tmp_path, replace(ORIGIN, **changed))
    assert store.open(0) is None
    assert store.sessions(0) == 0
    assert reason in caplog.text
    store.close()
    caplog.clear()
    assert opens(tmp_path) is None, "wiped, not set aside"


def rewritten(folder: Path, partition: int, meta: bytes) -> None:
    database = open_database(folder / f"partition-{partition}", Memory())
    database.write(rocks_batch([(META, meta)]))
    database.flush()
    database.close()


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (b'{"format":2,"and":"more"}', "a newer version wrote it"),
        (b'{"format":0}', "an older version wrote it"),
        (b'{"format":1}', "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_record_of_another_version_or_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, meta: bytes, reason: str
) -> None:
    filled(tmp_path)
    rewritten(tmp_path, 0, meta)
    assert opens(tmp_path) is None
    assert reason in caplog.text


def test_a_partition_under_another_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path)
    shutil.rmtree(tmp_path / "partition-1")
    (tmp_path / "partition-0").rename(tmp_path / "partition-1")
    assert opens(tmp_path, 1) is None
    assert "it is of partition 0" in caplog.text


# --- age ------------------------------------------------------------------------------------------

HOUR = 3600.0


class At:
    """A clock that is set."""

    def __init__(self, time: float) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time


def aged(folder: Path, clock: At) -> LocalStore:
    return LocalStore(folder, ORIGIN, clock)


def test_what_is_older_than_deletions_are_kept_is_wiped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = At(1_000_000.0)
    store = aged(tmp_path, clock)
    store.write(0, batch(0), 1)
    store.close()
    clock.time += 23 * HOUR
    store = aged(tmp_path, clock)
    assert store.open(0) == 1
    store.close()
    clock.time += 23 * HOUR
    store = aged(tmp_path, clock)
    assert store.open(0) == 1, "deletions have been kept since it was opened last"
    clock.time += 25 * HOUR
    assert store.open(0) is None, "held all the time, and nothing was heard"
    assert "25.0 h old" in caplog.text
    store.close()


def test_while_the_topic_is_read_its_age_is_that_of_the_start(tmp_path: Path) -> None:
    clock = At(1_000_000.0)
    store = aged(tmp_path, clock)
    assert store.open(0) is None
    for number in range(3):
        clock.time += 8 * HOUR
        store.write(0, batch(number), number + 1, current=False)
    store.close()
    clock.time += HOUR
    store = aged(tmp_path, clock)
    assert store.open(0) is None
    clock.time += 8 * HOUR
    store.write(0, batch(0), 1)  # the end was reached
    store.close()
    clock.time += 20 * HOUR
    store = aged(tmp_path, clock)
    assert store.open(0) == 1
    store.close()


def test_from_the_future_nothing_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = At(1_000_000.0)
    store = aged(tmp_path, clock)
    store.write(0, batch(0), 1)
    store.close()
    clock.time -= 60
    store = aged(tmp_path, clock)
    assert store.open(0) == 1, "clocks differ by a minute"
    store.close()
    clock.time -= 2 * HOUR
    store = aged(tmp_path, clock)
    assert store.open(0) is None
    assert "a clock jumped" in caplog.text
    store.close()


# --- folders and disks ----------------------------------------------------------------------------


def test_a_folder_has_one_worker(tmp_path: Path) -> None:
    store = local(tmp_path)
    with pytest.raises(Fatal, match=rf"process {os.getpid()}\) uses .*--instance"):
        local(tmp_path)
    store.close()
    local(tmp_path).close()


def test_another_process_has_it(tmp_path: Path) -> None:
    process = writer(tmp_path, 1, 0)
    try:
        assert process.stdout is not None
        process.stdout.read(1)
        with pytest.raises(Fatal, match=f"process {process.pid}"):
            local(tmp_path)
    finally:
        killed(process)
    local(tmp_path).close()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreBroken, match=r"Not a directory.*--state-dir"):
        local(tmp_path / "file" / "below")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_stops_with_the_remedy_and_goes_on_with_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    store = local(small_disk / "state")
    written, chance = 0, random.Random(1)
    with pytest.raises(StoreFull, match=r"full.*--state-dir"):  # noqa: PT012 - any of the writes
        while written < 10_000:
            store.write(0, [(f"s{written}", "", chance.randbytes(3_000))], written + 1)
            written += 1
    store.close()
    ballast.unlink()
    store = local(small_disk / "state")
    position = store.open(0) or 0
    assert position <= written
    assert store.sessions(0) == position
    assert all(store.segments(0, f"s{number}") is not None for number in range(position))
    assert store.segments(0, f"s{position}") is None
    store.write(0, [], position)
    store.close()


def test_a_disk_that_stays_busy_is_told_and_one_without_room_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB's own wait for room might have no end."""

    class Busy:
        def write(self, _: object) -> None:
            raise Exception("Result incomplete: Write stall")  # noqa: TRY002 - as rocksdict does

    monkeypatch.setattr("pipeline.store.rocks.STALLED_S", 0.05)
    with pytest.raises(StoreBroken, match="taken no write for"):
        rocks_write(Busy(), tmp_path, lambda: rocks_batch([]), room=1)  # type: ignore[arg-type]
    with pytest.raises(StoreFull):
        rocks_write(Busy(), tmp_path, lambda: rocks_batch([]), room=1 << 62)  # type: ignore[arg-type]


def test_no_room_at_all_is_no_damage(small_disk: Path) -> None:
    store = local(small_disk / "state")
    store.write(0, batch(0), 1)
    store.close()
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    try:
        store = local(small_disk / "state")
    except StoreFull:
        pass
    else:
        try:
            assert store.open(0) == 1
        except StoreFull:
            pass
        finally:
            store.close()
    (small_disk / "ballast").unlink()
    assert opens(small_disk / "state") == 1


def test_where_it_lies() -> None:
    environ = {"XDG_STATE_HOME": "/var/lib/x"}
    assert state_folder(None, "app", "host-0", environ) == Path("/var/lib/x/foldstream/app/host-0")
    home = Path("~/.local/state/foldstream").expanduser()
    assert state_folder(None, "app", "i", {}) == home / "app" / "i"
    assert state_folder(None, "app", "i", {"XDG_STATE_HOME": "relative"}) == home / "app" / "i"
    assert state_folder("/data", "app", "i", environ) == Path("/data/app/i")
    assert state_folder("none", "app", "i", environ) is None


@pytest.mark.parametrize("name", [".", "..", "a/b", "../../etc", "a\x00b"])
def test_no_name_leads_elsewhere(name: str) -> None:
    folder = state_folder("/data", "x", name, {})
    assert folder is not None
    assert len(folder.parts) == 4
    assert not {".", ".."} & set(folder.parts)
    assert "\x00" not in str(folder)
    assert state_folder("/data", "x", "a/b", {}) != state_folder("/data", "x", "a%2Fb", {})
