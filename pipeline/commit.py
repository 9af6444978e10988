"""The commit procedure, numbered (streams.md §2; house.md, habit 5).

A crash between any two of the lines is a test (``tests/pipeline/test_commit.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from .batch import BatchResult
from .errors import Retriable
from .identity import NEXT
from .ports import Member, OutRecord, Sink, Transaction, require_joined
from .state import PLACE_KEY, States


class Folded(Struct, frozen=True):
    """One polled batch, folded: what is to be published, and what becomes of the states.

    ``nexts`` is the offset after the last record of each partition; ``member`` was taken right
    after the poll that brought the records. ``resume`` names the partitions of which not all
    records were taken: they are read again from there."""

    results: Mapping[int, BatchResult]
    nexts: Mapping[int, int]
    member: Member
    resume: Mapping[int, int] = {}


def deliver(
    folded: Folded,
    sink: Sink,
    states: States,
    *,
    current: Callable[[Member], bool],
    step: Callable[[int], None] = lambda _: None,
) -> None:
    """Publish a batch and make its states the current ones, in this order and no other.

    ``current`` says whether the group is still what it was (`Source.current`); ``step(n)`` is
    called before line ``n``. What raises before line 7 leaves ``states`` as they were; whether the
    batch is published is then for the committed offsets to say, and the caller abandons the
    producer (`Sink.abandon`): none is ever used again after a failure, since offsets left in it
    would be committed by its *next* transaction."""
    # 1. Begin. An earlier transaction of this worker is over, or its producer was abandoned.
    step(1)
    transaction = sink.begin()
    # 2. The offsets to go on from, in the name of the member that polled and no later one: if the
    #    group has moved on since, the partitions may be another worker's. The broker would refuse
    #    a passed generation, but takes a member without any. They are on their way while the
    #    outputs are handed over, which hides three round trips (deploy/decisions).
    step(2)
    _require_current(folded.member, current)
    transaction.send_offsets(folded.nexts, folded.member)
    # 3. Outputs, snapshots and dead letters, each to its explicit partition.
    step(3)
    _send(transaction, folded)
    # 4. Wait until all is acknowledged, the offsets too, and look at each acknowledgement: a commit
    #    succeeds even though a record was lost.
    step(4)
    positions = transaction.flush()
    # 5. Commit. If this raises, the outcome is unknown.
    step(5)
    transaction.commit()
    # 6. Only now: the staged states are the states of the committed offsets.
    step(6)
    _merge(folded, states, positions)
    # 7. Done: the next batch may begin.
    step(7)


def _send(transaction: Transaction, folded: Folded) -> None:
    """Every partition that something comes of has a state record with the offset to go on from: in
    case the group forgets it. One that has no state to save gets a record for that alone."""
    for partition, result in folded.results.items():
        place = (NEXT, b"%d" % folded.nexts[partition])
        placed = False
        for record in result.outputs:
            if record.role == "state":
                record = replace(record, headers=[*record.headers, place])
                placed = True
            transaction.send(record)
        if result.outputs and not placed:
            transaction.send(OutRecord("state", partition, PLACE_KEY, b"", [place]))


def _require_current(member: Member, current: Callable[[Member], bool]) -> None:
    require_joined(member)
    if not current(member):
        raise Retriable(f"the group has moved on from generation {member.generation}")


def _merge(folded: Folded, states: States, positions: Mapping[int, int]) -> None:
    for partition, result in folded.results.items():
        if result.states:
            states.merge(partition, result.states, result.segments, positions[partition])
