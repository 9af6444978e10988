"""For each guard a small history that its absence violates."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.histories import Fault, History


def _one(*faults: Fault, workers: int = 1) -> History:
    return History(2, workers, 2, 9, faults)


_COMMIT_LOST = _one(Fault(20, "lost", "line 5", "EndTxn"))
_COMMIT_UNANSWERED = _one(Fault(20, "unanswered", "line 5", "EndTxn"))
_STALLED = _one(Fault(20, "stall", "line 1", "", 8), workers=2)
_RECORDS_LOST = _one(Fault(20, "lost", "line 2", "Produce", 9))
_MARKERS_LATE = _one(
    Fault(20, "markers late", "line 5", "", 1), Fault(0, "crash", "commit:after"), workers=2
)

KNOWN: Mapping[str, History] = {
    "futures not looked at": _RECORDS_LOST,
    "no flush before the commit": _RECORDS_LOST,
    "producer used again": _COMMIT_UNANSWERED,
    "transaction aborted, producer used again": _STALLED,
    "member taken at the commit": _STALLED,
    "no watchdog": _one(Fault(20, "dropped", "line 3", "TxnOffsetCommit")),
    "a commit that raised is taken for aborted": _COMMIT_UNANSWERED,
    "a commit that raised is taken for done": _COMMIT_LOST,
    "states merged before the commit": _COMMIT_LOST,
    "state topic not read": _one(Fault(60, "crash without store", "line 1")),
    "position not rewound": _COMMIT_LOST,
    "offsets outside of the transaction": _one(Fault(20, "crash", "line 5")),
    "orphans left open": _one(Fault(20, "markers lost", "line 1"), Fault(0, "crash", "line 5")),
    "store position before its states": _one(Fault(20, "crash", "store:between")),
    "uncommitted states read": _COMMIT_LOST,
    "the undecided is not waited for": _MARKERS_LATE,
    "records before the states are there": _MARKERS_LATE,
    "ownerless partitions left": History(
        12, 2, 2, 16, (Fault(0, "leave", "line 6", "", 7), Fault(31, "late", "", "EndTxn"))
    ),
    "residents kept over a loss": History(
        12,
        2,
        3,
        9,
        (
            Fault(28, "lost", "line 4", "TxnOffsetCommit", 8),
            Fault(31, "markers late", "", "", 1),
            Fault(22, "cut after", "line 3", "JoinGroup", 8),
            Fault(40, "twin", "", "Heartbeat", 7),
            Fault(45, "cut", "line 5", "", 4),
            Fault(28, "twin", "store", "TxnOffsetCommit", 2),
            Fault(50, "twin", "line 4", "EndTxn", 5),
            Fault(29, "cut after", "line 3", "AddPartitionsToTxn", 1),
            Fault(16, "crash without store", "line 7", "JoinGroup", 3),
        ),
    ),
}
