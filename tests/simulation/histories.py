"""Histories: a deployment and what happens to it, as data that Hypothesis makes and shrinks."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import Struct

#: What a fault does, at a point of some worker's doing (``amount`` 0 to 9 as its kind reads it).
KINDS = (
    "crash",  # the process dies
    "crash without store",  # and its local store is gone
    "stop",  # SIGSTOP for a while, then SIGCONT
    "stall",  # its main thread does nothing for a while; heartbeats go on
    "stall",  # (more often: only a long one, with a batch in hand, makes a zombie)
    "stall",
    "lost",  # a request never arrives
    "unanswered",  # a request takes effect, its answer is lost
    "late",  # a request takes effect long after the client gave up
    "cut",  # the connection closes, the request did not arrive
    "cut after",  # or did
    "broker",  # a broker is away for a while
    "dropped",  # the client drops a transactional request (H6)
    "markers late",  # of decided transactions
    "markers late",  # (more often: only a successor that comes in between can see it)
    "markers lost",  # of aborted ones
    "twin",  # somebody else opens a producer of the same name
    "join",  # one more worker
    "leave",  # a worker is told to stop
    "replace",  # a second process under the same instance
    "again",  # records of the input are produced once more
)

#: Requests that the network's faults are about; "" is the next one of any kind.
REQUESTS = (
    "",
    "Produce",
    "EndTxn",
    "TxnOffsetCommit",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "InitProducerId",
    "OffsetFetch",
    "JoinGroup",
    "Heartbeat",
)


#: Where a fault strikes: at the next point whose name begins so. The lines are those of
#: `pipeline.commit.deliver`.
PLACES = (
    "",
    "",
    "line 1",
    "line 1",
    "line 2",
    "line 3",
    "line 4",
    "line 5",
    "line 6",
    "line 7",
    "send_offsets:during",
    "commit:during",
    "commit:after",
    "commit:after",
    "poll:after",
    "OffsetFetch:after",
    "ListOffsets:after",
    "init_transactions:after",
    "abort:during",
    "store",
)


class Fault(Struct, frozen=True):
    """``after``: points passed since the fault before; then the next one at ``at``."""

    after: int
    kind: str
    at: str = ""
    request: str = ""
    amount: int = 0


class History(Struct, frozen=True):
    """``input``: which sessions are written; ``batch``: records of one poll at most."""

    input: int
    workers: int
    partitions: int
    batch: int
    faults: tuple[Fault, ...]


def faults() -> st.SearchStrategy[Fault]:
    return st.builds(
        Fault,
        after=st.integers(0, 60),
        kind=st.sampled_from(KINDS),
        at=st.sampled_from(PLACES),
        request=st.sampled_from(REQUESTS),
        amount=st.integers(0, 9),
    )


def histories() -> st.SearchStrategy[History]:
    return st.builds(
        History,
        input=st.integers(0, 15),
        workers=st.integers(1, 3),
        partitions=st.integers(2, 3),
        batch=st.sampled_from((5, 9, 16)),
        faults=st.lists(faults(), min_size=1, max_size=9).map(tuple),
    )
