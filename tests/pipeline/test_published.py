"""One session read back from its topics: epochs, deleted rows, and the text that still streams."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from operators.changes import (
    AssistantData,
    Change,
    GapData,
    PartialText,
    SurfaceChange,
    TranscriptRow,
)
from operators.session import Session
from pipeline import published
from pipeline.memory import MemoryBroker
from pipeline.memory_ends import MemoryReader, create_topics
from pipeline.topics import Names
from schemas.outbound import encode, key_of, subject_of

NAMES = Names()
PARTITION = 1


@pytest.fixture
def broker() -> MemoryBroker:
    made = MemoryBroker()
    create_topics(made, NAMES, 3)
    return made


def publish(broker: MemoryBroker, *changes: Change) -> None:
    for change in changes:
        topic = NAMES.of(subject_of(change))
        broker.append(topic, PARTITION, key_of(change), encode(change))


def read(broker: MemoryBroker, session: str = "s") -> published.Published | None:
    return published.session(MemoryReader(broker), NAMES, session)


def overview(session: str = "s", epoch: int = 0, **fields: Any) -> Change:
    whole = Session(session, epoch).overview()
    return msgspec.structs.replace(whole, **fields)


def row(seq: int, session: str = "s", epoch: int = 0, **fields: Any) -> TranscriptRow:
    whole: dict[str, Any] = {
        "session": session, "epoch": epoch, "seq": seq, "key": f"gap:{seq}", "kind": "gap",
        "anchor_seq": seq, "anchor_rank": 0, "rev": seq, "visibility": "auxiliary", "turn": None,
        "step": None, "time": None, "deleted": False, "truncated": (), "data": GapData(seq, seq),
    }  # fmt: skip
    return TranscriptRow(**whole | fields)


def running(blocks: list[dict[str, Any]], rev: int = 5) -> TranscriptRow:
    data = AssistantData("running", blocks=Raw(msgspec.json.encode(blocks)))
    return row(4, key="assistant:4", kind="assistant", rev=rev, data=data)


def partial(offset: int, text: str, seq: int, **fields: Any) -> PartialText:
    whole: dict[str, Any] = {
        "session": "s", "epoch": 0, "seq": seq, "key": "assistant:4", "turn": 1, "step": 1,
        "block": 0, "block_type": "text", "offset": offset, "text": text, "first_seq": seq,
        "last_seq": seq, "time": 0,
    }  # fmt: skip
    return PartialText(**whole | fields)


def keys(rows: Iterable[TranscriptRow]) -> list[str]:
    return [row.key for row in rows]


def test_the_last_row_of_each_key_in_transcript_order(broker: MemoryBroker) -> None:
    moved = row(7, rev=9, anchor_seq=1)
    gone = row(3, deleted=True, data=None)
    publish(broker, row(7), row(2), row(3), moved, gone, row(8, session="s2"), overview())
    found = read(broker)
    assert found is not None
    assert keys(found.rows) == ["gap:7", "gap:2"]
    assert found.partition == PARTITION
    assert found.overview.session == "s"


def test_what_is_of_an_earlier_epoch_is_gone(broker: MemoryBroker) -> None:
    reset = SurfaceChange("s", 1, -1, "reset")
    changes = [SurfaceChange("s", epoch, 0, "append") for epoch in (0, 1)]
    publish(broker, row(1), changes[0], overview())
    publish(broker, reset, changes[1], row(2, epoch=1), overview(epoch=1))
    found = read(broker)
    assert found is not None
    assert keys(found.rows) == ["gap:2"]
    assert found.surface == [reset, changes[1]]


def test_a_session_without_an_overview_is_not_there(broker: MemoryBroker) -> None:
    publish(broker, row(1), overview("other"))
    broker.append(NAMES.of("overview"), PARTITION, b"s", None)
    assert read(broker) is None


def test_what_is_no_record_of_ours_is_passed_over(broker: MemoryBroker) -> None:
    publish(broker, row(1), overview())
    broker.append(NAMES.of("transcript"), PARTITION, b"s\x1fx:1", b"\xc3\x01 not ours")
    broker.append(NAMES.of("transcript"), PARTITION, b"s\x1fy:1", None)
    found = read(broker)
    assert found is not None
    assert keys(found.rows) == ["gap:1"]


def blocks_of(broker: MemoryBroker) -> Any:
    found = read(broker)
    assert found is not None
    (only,) = found.rows
    assert isinstance(only.data, AssistantData)
    return only.rev, msgspec.json.decode(only.data.blocks)


def test_a_running_row_is_joined_with_the_text_after_it(broker: MemoryBroker) -> None:
    blocks = [{"type": "text", "text": "a🙂"}, {"type": "tool-call", "id": "c", "arguments": ""}]
    publish(broker, overview(), running(blocks))
    publish(broker, partial(0, "a🙂", 5), partial(2, "b", 6), partial(3, "c", 7))
    publish(broker, partial(0, "{", 8, block=1, block_type="tool-call"))
    publish(broker, partial(9, "x", 9, key="assistant:1"))
    assert blocks_of(broker) == (
        8, [{"type": "text", "text": "a🙂bc"}, {"type": "tool-call", "id": "c", "arguments": "{"}],
    )  # fmt: skip


@pytest.mark.parametrize(
    "odd", [partial(5, "x", 6), partial(1, "x", 6, block=3), partial(1, "x", 6, block_type="image")]
)
def test_a_frame_that_does_not_fit_leaves_the_row_as_published(
    broker: MemoryBroker, odd: PartialText
) -> None:
    publish(broker, overview(), running([{"type": "text", "text": "a"}]), odd)
    assert blocks_of(broker) == (5, [{"type": "text", "text": "a"}])


def test_overviews_are_the_last_of_each_session(broker: MemoryBroker) -> None:
    publish(broker, overview(next_seq=1), overview("t"), overview(next_seq=2))
    found = {o.session: o.next_seq for o in published.overviews(MemoryReader(broker), NAMES)}
    assert found == {"s": 2, "t": 0}
