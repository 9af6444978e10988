"""Ingest: each line of each session once, across passes, restarts, growth and new generations."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from operators.events import Fault
from pipeline.batch import read
from pipeline.cursor import Already
from pipeline.errors import Poison
from pipeline.ingest import Ingest, Progress
from pipeline.limits import MAX_OUTPUT_RECORD_BYTES, MAX_SESSION_CHARS
from pipeline.lines import MemoryLineSink
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.ports import InRecord, OutRecord
from pipeline.resume import already_in, letters
from pipeline.topics import Names
from schemas.deadletter import DeadLetter, decode_dead_letter
from schemas.names import session_name
from tests.pipeline.world import World
from tests.schemas.logs import header, line, raw, row, turns, zstd

NAMES = Names()
EVENTS = NAMES.of("events")


class Topics:
    """The topics, and ingests over them that come and go."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        create_topics(self.broker, NAMES, 3)
        self.reader = MemoryReader(self.broker)
        self.notes: list[str] = []
        self.ingest = self.start()

    def start(self, max_line_bytes: int = 8_000_000) -> Ingest:
        """A new process: it knows only what the topic has."""
        known = already_in(self.reader, NAMES)
        sink = MemoryLineSink(self.broker, NAMES)
        self.ingest = Ingest(
            sink,
            EVENTS,
            known.sessions.get,
            letters=lambda: letters(self.reader, NAMES, known.folded),
            note=self.notes.append,
            max_line_bytes=max_line_bytes,
        )
        return self.ingest

    def records(self, topic: str = EVENTS) -> list[InRecord]:
        partitions = range(self.reader.partitions(topic))
        return [record for at in partitions for record in self.reader.read(topic, at)]

    def lines(self, session: str = "s") -> list[tuple[int, bytes | None]]:
        """(epoch, value) of one session's records, in order."""
        mine = [record for record in self.records() if record.key == session.encode()]
        assert len({record.partition for record in mine}) <= 1
        return [(int(dict(record.headers)["epoch"] or b""), record.value) for record in mine]

    def letters(self) -> list[DeadLetter]:
        return [
            decode_dead_letter(record.value)
            for record in self.records(NAMES.of("deadletter"))
            if record.value is not None
        ]


def log(root: Path, session: str = "s", file: str = "session.v4.jsonl") -> Path:
    path = root / "--b--" / session_name(session) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def at(epoch: int, lines: Iterable[bytes]) -> list[tuple[int, bytes]]:
    return [(epoch, entry) for entry in lines]


@pytest.fixture
def topics() -> Topics:
    return Topics()


def test_each_line_once_under_the_sessions_key(tmp_path: Path, topics: Topics) -> None:
    log(tmp_path).write_bytes(raw(turns()))
    log(tmp_path, "ü").write_bytes(raw(turns(3, session="ü")))
    assert topics.ingest.once([tmp_path]) == Progress(
        sessions=2, sent=17, bytes=len(raw(turns()) + raw(turns(3, session="ü"))) - 17
    )
    assert topics.lines() == at(0, turns())
    assert topics.lines("ü") == at(0, turns(3, session="ü"))
    assert len(topics.records()) == 17
    assert (topics.letters(), topics.notes) == ([], [])


def test_neither_a_second_pass_nor_a_restart_sends_anything_again(
    tmp_path: Path, topics: Topics
) -> None:
    log(tmp_path).write_bytes(raw(turns()))
    log(tmp_path, "z", "session.v4.jsonl.zstd").write_bytes(zstd(turns(session="z")))
    topics.ingest.once([tmp_path])
    before = topics.records()
    assert topics.ingest.once([tmp_path]).known == 0  # unchanged files are not even read
    counts = topics.start().once([tmp_path])
    assert topics.records() == before
    assert (counts.sent, counts.known) == (0, 14)


def test_what_is_appended_is_sent(tmp_path: Path, topics: Topics) -> None:
    path = log(tmp_path)
    for count in (1, 2, 3):
        path.write_bytes(raw(turns(count)))
        topics.ingest.once([tmp_path])
    for count in (4, 5):
        path.write_bytes(raw(turns(count)))
        topics.start().once([tmp_path])
    assert topics.lines() == at(0, turns(5))


def test_a_torn_tail_waits_until_it_is_whole(tmp_path: Path, topics: Topics) -> None:
    path, data = log(tmp_path), raw(turns(3))
    path.write_bytes(data[:-20])
    topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, turns(3)[:-1])
    path.write_bytes(data[:-10])
    topics.ingest.once([tmp_path])
    assert [str(path) in note for note in topics.notes] == [True]
    path.write_bytes(data)
    topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, turns(3))
    assert topics.letters() == []


def test_rows_behind_a_defect_wait_for_a_turn_end_and_the_defect_goes_with_them(
    tmp_path: Path, topics: Topics
) -> None:
    path, lines = log(tmp_path), [*turns(1), b"?", row(4)]
    path.write_bytes(raw(lines))
    topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, turns(1))
    lines += [row(5, "turn/end"), row(6)]
    path.write_bytes(raw(lines))
    topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, lines)
    for more in (b"??", row(7)):
        lines += [more]
        path.write_bytes(raw(lines))
        topics.ingest.once([tmp_path])
        assert topics.lines() == at(0, lines)


@pytest.mark.parametrize("restart", [False, True])
def test_a_higher_generation_is_a_new_epoch(tmp_path: Path, topics: Topics, restart: bool) -> None:
    old, new = turns(2, version=0), turns(4)
    log(tmp_path, file="session.jsonl").write_bytes(raw(old))
    topics.ingest.once([tmp_path])
    log(tmp_path).write_bytes(raw(new))
    (topics.start() if restart else topics.ingest).once([tmp_path])
    assert topics.lines() == at(0, old) + at(1, new)
    topics.start().once([tmp_path])
    assert len(topics.lines()) == len(old) + len(new)
    log(tmp_path).write_bytes(raw(turns(5)))
    topics.start().once([tmp_path])
    assert topics.lines()[len(old) :] == at(1, turns(5))


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    "after",
    [
        turns(1),  # it shrank
        [*turns(2)[:-1], row(5, "turn/end", data="another")],  # as long, another end
        [*turns(2)[:-1], row(5, "todo/write"), *(row(seq) for seq in range(6, 9))],
        [header(createdAt=8), *turns(2)[1:]],  # another header
    ],
)
def test_a_replaced_file_is_a_new_epoch(
    tmp_path: Path, topics: Topics, restart: bool, after: list[bytes]
) -> None:
    path = log(tmp_path)
    path.write_bytes(raw(turns(2)))
    topics.ingest.once([tmp_path])
    path.write_bytes(raw(after))
    counts = (topics.start() if restart else topics.ingest).once([tmp_path])
    assert topics.lines() == at(0, turns(2)) + at(1, after)
    assert counts.epochs == 1
    topics.start().once([tmp_path])
    topics.ingest.once([tmp_path])
    assert len(topics.lines()) == len(turns(2)) + len(after)


def test_a_repeated_last_row_is_no_reason_for_a_new_epoch(tmp_path: Path, topics: Topics) -> None:
    lines = [*turns(1), row(2, "turn/end", data="again")]
    log(tmp_path).write_bytes(raw(lines))
    for _ in range(2):
        assert topics.start().once([tmp_path]).epochs == 0
    assert topics.lines() == at(0, lines)


def test_an_emptied_or_lost_file_changes_nothing(tmp_path: Path, topics: Topics) -> None:
    path = log(tmp_path)
    path.write_bytes(raw(turns(2)))
    topics.ingest.once([tmp_path])
    path.write_bytes(b"")
    topics.ingest.once([tmp_path])
    path.unlink()
    topics.ingest.once([tmp_path])
    path.write_bytes(raw(turns(3)))
    topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, turns(3))


def test_a_line_above_the_limit_is_a_dead_letter_and_the_next_is_sent(
    tmp_path: Path, topics: Topics
) -> None:
    long = row(1, data="x" * 900)
    lines = [header(), row(0), long, row(2)]
    path = log(tmp_path)
    path.write_bytes(raw(lines))
    ingest = topics.start(max_line_bytes=500)
    for _ in range(2):
        ingest.once([tmp_path])
        os.utime(path)
    assert topics.lines() == at(0, [lines[0], lines[1], lines[3]])
    [letter] = topics.letters()
    assert (letter.reason, letter.session, letter.partition) == ("too-large", "s", -1)
    assert letter.topic == EVENTS
    place = {entry.key: entry.value for entry in letter.headers}
    assert place["file"] == os.fsencode(path)
    start, _, end = (place["bytes"] or b"").partition(b"-")
    assert path.read_bytes()[int(start) : int(end)] == long


def test_a_record_that_the_topic_does_not_take_is_a_dead_letter_and_the_rest_is_sent(
    tmp_path: Path, topics: Topics
) -> None:
    long = row(1, data="x" * 900)
    lines = [header(), row(0), long, row(2)]
    path = log(tmp_path)
    path.write_bytes(raw(lines))
    sink = MemoryLineSink(topics.broker, NAMES)
    ingest = Ingest(sink, EVENTS, lambda _: None, max_record_bytes=600)
    for _ in range(2):
        ingest.once([tmp_path])
        os.utime(path)
    assert topics.lines() == at(0, [lines[0], lines[1], lines[3]])
    [letter] = topics.letters()
    assert (letter.reason, letter.session, ingest.counts.sent) == ("too-large", "s", 3)
    start, _, end = ({h.key: h.value for h in letter.headers}["bytes"] or b"").partition(b"-")
    assert path.read_bytes()[int(start) : int(end)] == long


def test_a_record_above_the_clients_limit_is_a_dead_letter_too(
    tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = MemoryLineSink.send

    def refusing(self: MemoryLineSink, record: OutRecord) -> None:
        if record.role == "events" and b'"seq":1' in (record.value or b""):
            raise Poison("too large")
        send(self, record)

    monkeypatch.setattr(MemoryLineSink, "send", refusing)
    log(tmp_path).write_bytes(raw(turns()))
    topics.ingest.once([tmp_path])
    assert [letter.reason for letter in topics.letters()] == ["too-large"]
    assert len(topics.lines()) == len(turns()) - 1


def test_an_id_that_is_no_key_is_a_dead_letter_and_the_others_are_sent(
    tmp_path: Path, topics: Topics
) -> None:
    (tmp_path / "long.jsonl").write_bytes(raw(turns(session="x" * (MAX_SESSION_CHARS + 1))))
    (tmp_path / "most.jsonl").write_bytes(raw(turns(session="x" * MAX_SESSION_CHARS)))
    (tmp_path / "s.jsonl").write_bytes(raw(turns()))
    for _ in range(2):
        topics.ingest.once([tmp_path])
    counts = topics.ingest.counts
    assert topics.lines() == at(0, turns())
    assert topics.lines("x" * MAX_SESSION_CHARS) != []
    [letter] = topics.letters()
    assert (letter.reason, letter.session, letter.key) == ("unreadable", None, None)
    assert "long.jsonl" in letter.message
    assert (counts.sessions, counts.unreadable, counts.dead_letters) == (3, 1, 1)


def test_half_a_surrogate_pair_in_an_id_is_keyed_as_the_fold_reads_it(
    tmp_path: Path, topics: Topics
) -> None:
    lines = [header().replace(b'"id":"s"', b'"id":"a\\ud800"'), *turns()[1:]]
    (tmp_path / "odd.jsonl").write_bytes(raw(lines))
    for _ in range(2):
        topics.start().once([tmp_path])
    assert {record.key for record in topics.records()} == {b"a\xef\xbf\xbd"}
    assert not any(isinstance(item.line, Fault) for item in read(topics.records()))
    assert topics.lines("a\ufffd") == at(0, lines)


def test_a_corrupt_file_gives_what_can_be_read_and_a_dead_letter(
    tmp_path: Path, topics: Topics
) -> None:
    lines = turns(2)
    data = bytearray(zstd(lines))
    data[-1] ^= 1
    log(tmp_path, file="session.v4.jsonl.zstd").write_bytes(data)
    log(tmp_path, "t", "session.v4.jsonl.zstd").write_bytes(zstd(turns(session="t")))
    counts = topics.ingest.once([tmp_path])
    assert topics.lines() == at(0, lines[:4])
    assert topics.lines("t") == at(0, turns(session="t"))
    assert [letter.reason for letter in topics.letters()] == ["unreadable"]
    assert (counts.sessions, counts.unreadable, counts.epochs) == (2, 1, 0)


def test_a_file_that_broke_later_is_no_new_epoch(tmp_path: Path, topics: Topics) -> None:
    path, data = log(tmp_path, file="session.v4.jsonl.zstd"), bytearray(zstd(turns(3)))
    path.write_bytes(data)
    topics.ingest.once([tmp_path])
    data[-1] ^= 1
    path.write_bytes(data)
    assert topics.ingest.once([tmp_path]).epochs == 0
    assert topics.start().once([tmp_path]).epochs == 0
    assert topics.lines() == at(0, turns(3))


def test_a_bad_line_between_known_ones_is_not_sent_again(tmp_path: Path, topics: Topics) -> None:
    lines = [*turns(1), b"?", row(3), row(4, "turn/end")]
    log(tmp_path).write_bytes(raw(lines))
    topics.ingest.once([tmp_path])
    topics.start().once([tmp_path])
    assert topics.lines() == at(0, lines)


def folded(topics: Topics) -> None:
    """A worker folds what is there."""
    world = World()
    world.broker = topics.broker
    world.run()


def test_a_line_without_a_seq_at_the_end_is_sent_once_by_however_many_runs(
    tmp_path: Path, topics: Topics
) -> None:
    path, lines = log(tmp_path), [*turns(1), b"?", row(3, "turn/end"), b"?", b"?"]
    path.write_bytes(raw(lines))
    for _ in range(2):
        topics.start().once([tmp_path])
        assert topics.lines() == at(0, lines)
    folded(topics)
    for _ in range(2):
        topics.start().once([tmp_path])
        assert topics.lines() == at(0, lines)
    lines += [b"?", row(4, "turn/end"), b"?"]
    path.write_bytes(raw(lines))
    topics.start().once([tmp_path])
    assert topics.lines() == at(0, lines)


def test_what_was_dead_lettered_once_is_not_by_the_next_run(tmp_path: Path, topics: Topics) -> None:
    long = row(1, data="x" * 900)
    log(tmp_path).write_bytes(raw([header(), row(0), long, row(2)]))
    broken = bytearray(zstd(turns(2, session="z")))
    broken[-1] ^= 1
    log(tmp_path, "z", "session.v4.jsonl.zstd").write_bytes(broken)
    os.mkfifo(log(tmp_path, "pipe"))
    (tmp_path / "--b--" / "x.jsonl").write_bytes(raw(turns(session="x" * 5000)))
    made = topics.start(max_line_bytes=500).once([tmp_path]).dead_letters
    assert made == len(topics.letters()) == 3
    again = topics.start(max_line_bytes=500).once([tmp_path])
    assert (again.dead_letters, again.unreadable) == (0, 2)  # they are counted as ever
    assert len(topics.letters()) == 3
    path = log(tmp_path)
    path.write_bytes(path.read_bytes() + raw([row(3, data="x" * 901)]))
    assert topics.start(max_line_bytes=500).once([tmp_path]).dead_letters == 1


def test_unreadable_things_are_dead_letters_and_nothing_is_waited_for(
    tmp_path: Path, topics: Topics
) -> None:
    os.mkfifo(log(tmp_path, "pipe"))
    (log(tmp_path, "folder") / "keep").mkdir(parents=True)
    log(tmp_path).write_bytes(raw(turns()))
    for _ in range(2):
        topics.ingest.once([tmp_path, tmp_path / "none"])
    assert topics.lines() == at(0, turns())
    letters = topics.letters()
    assert {letter.reason for letter in letters} == {"unreadable"}
    assert {letter.session for letter in letters} == {"pipe", "folder", None}
    assert len(letters) == 3
    assert topics.ingest.counts.unreadable == 2


def test_a_folder_names_a_session_without_header_and_fixtures_are_numbered(
    tmp_path: Path, topics: Topics
) -> None:
    for name in ("plain", "fixture", "mixed"):
        (tmp_path / name).mkdir()
    (tmp_path / "plain" / "log.jsonl").write_bytes(raw([row(0), row(1)]))
    bare = line({"type": "turn/start", "data": {"turn": 1}})
    (tmp_path / "fixture" / "log.jsonl").write_bytes(raw([bare, bare]))
    (tmp_path / "mixed" / "log.jsonl").write_bytes(raw([bare, row(1)]))
    (tmp_path / "plain" / "surface.json").write_bytes(b"{}")
    for _ in range(2):
        topics.start().once([tmp_path])
    assert topics.lines("plain") == at(0, [row(0), row(1)])
    assert topics.lines("mixed")[:2] == at(0, [bare, row(1)])
    assert [value for _, value in topics.lines("fixture")] == [
        b'{"seq":%d,"time":0,%b' % (seq, bare[1:]) for seq in range(2)
    ]


def test_of_two_roots_with_one_session_the_first_is_read(tmp_path: Path, topics: Topics) -> None:
    for name in ("one", "two"):
        log(tmp_path / name).write_bytes(raw(turns(1 if name == "one" else 2)))
    for _ in range(2):
        topics.ingest.once([tmp_path / "one", tmp_path / "two"])
    assert topics.lines() == at(0, turns(1))
    assert len(topics.notes) == 1


class Steps:
    """A clock whose every sleep is the next step of a test."""

    def __init__(self, *steps: object) -> None:
        self.left = list(steps)

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        assert seconds == 0.5
        step = self.left.pop(0)
        if callable(step):
            step()

    def done(self) -> bool:
        return not self.left


def test_following_sends_what_comes(
    tmp_path: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path)
    path.write_bytes(raw(turns(1)))
    passes = 0
    once = topics.ingest.once

    def counted(roots: Iterable[Path]) -> Progress:
        nonlocal passes
        passes += 1
        return once(roots)

    monkeypatch.setattr(topics.ingest, "once", counted)
    clock = Steps(
        lambda: path.write_bytes(raw(turns(2)) + b"{"),
        None,
        lambda: log(tmp_path, "t").write_bytes(raw(turns(1, session="t"))),
        lambda: path.write_bytes(raw(turns(3))),
        None,
    )
    topics.ingest.follow([tmp_path], clock, clock.done, interval=0.5)
    assert topics.lines() == at(0, turns(3))
    assert topics.lines("t") == at(0, turns(1, session="t"))
    assert passes == 2  # at first, and when there was another session


@settings(max_examples=50)  # each makes files
@given(
    cuts=st.lists(st.tuples(st.integers(0, 2_000), st.booleans()), max_size=6),
    zipped=st.booleans(),
)
def test_a_log_that_grows_under_passes_and_restarts_arrives_once(
    cuts: list[tuple[int, bool]], zipped: bool
) -> None:
    lines = turns(5)
    data = zstd(lines) if zipped else raw(lines)
    topics = Topics()
    with tempfile.TemporaryDirectory() as folder:
        path = log(Path(folder), file="session.v4.jsonl" + (".zstd" if zipped else ""))
        for size, restart in [
            *sorted(cut for cut in cuts if cut[0] < len(data)),
            (len(data), True),
        ]:
            path.write_bytes(data[:size])
            (topics.start() if restart else topics.ingest).once([Path(folder)])
    assert topics.lines() == at(0, lines)


def test_what_the_topic_has_is_told_by_its_highest_epoch(tmp_path: Path, topics: Topics) -> None:
    path = log(tmp_path)
    path.write_bytes(raw(turns(3)))
    topics.ingest.once([tmp_path])
    path.write_bytes(raw(turns(1)))
    topics.ingest.once([tmp_path])
    topics.broker.append(EVENTS, 0, None, b"{}")
    topics.broker.append(EVENTS, 0, b"x", b"?", headers=[("epoch", b"-1")])
    topics.broker.append(EVENTS, 0, b"y", b"?")
    found = already_in(topics.reader, NAMES).sessions
    assert (found["s"].epoch, found["s"].next_seq) == (1, 3)
    assert found["y"] == Already(unnumbered=(xxh3_64_intdigest(b"?"),))
    assert found.keys() == {"s", "y"}


def test_the_memory_sink_refuses_what_a_broker_would(topics: Topics) -> None:
    sink = MemoryLineSink(topics.broker, NAMES)
    with pytest.raises(Poison):
        sink.send(OutRecord("events", 0, b"k", b"x" * (MAX_OUTPUT_RECORD_BYTES + 1), []))
    sink.send(OutRecord("deadletter", 2, b"k", b"v", []))  # that topic has one partition
    assert [record.value for record in topics.records(NAMES.of("deadletter"))] == [b"v"]
