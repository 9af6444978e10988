"""Every bound of the pipeline, each with its reason. Sizes in bytes, times as their names say."""

from __future__ import annotations

from typing import Final

# --- sizes (streams.md §2) ------------------------------------------------------------------------

#: Longest input line that ``ingest`` sends; a longer one is dead-lettered there as ``too-large``.
MAX_LINE_BYTES: Final = 8 * 1024 * 1024

#: A transcript row above this has its largest fields cut.
MAX_ROW_BYTES: Final = 8 * 1024 * 1024

#: Key, headers and record framing beside a value; the broker counts them too.
RECORD_OVERHEAD_BYTES: Final = 64 * 1024

#: Longest session id: it stands in the key and in a header of every output record, four bytes a
#: character at most, and both must stay within the overhead above.
MAX_SESSION_CHARS: Final = 4_096

#: Largest record on ``sessions.events``: a line of the greatest length, or its Avro form.
MAX_INPUT_RECORD_BYTES: Final = MAX_LINE_BYTES + RECORD_OVERHEAD_BYTES

#: Largest record on every other topic: twice a line, since a message may be carried beside what
#: the fold knows about it.
MAX_OUTPUT_RECORD_BYTES: Final = 2 * MAX_LINE_BYTES + RECORD_OVERHEAD_BYTES

#: Greatest ``epoch`` header: the greatest Avro int.
MAX_EPOCH: Final = 2**31 - 1

# --- topics (streams.md §1) -----------------------------------------------------------------------

#: Partitions of every topic but the dead letters: enough for six workers, few enough for a laptop.
PARTITIONS: Final = 6

#: Dead letters are rare and read as one list.
DEADLETTER_PARTITIONS: Final = 1

# --- batches --------------------------------------------------------------------------------------

#: Most input records of one transaction. At 2 000 the fixed cost of a transaction (about 50 ms) is
#: under a tenth of its sends.
BATCH_RECORDS: Final = 2_000

#: What one partition may bring into a transaction: bytes read, and text that rows repeat (a marker
#: carries its summary). The records after it wait for the next one. A summary cited a thousand
#: times would else be gigabytes at once.
BATCH_WEIGHT: Final = 16 * 1024 * 1024

#: How long the broker may wait for ``FETCH_MIN_BYTES`` before it answers a fetch; 0: it answers as
#: soon as there is a record. While a batch is delivered the next one gathers by itself.
LINGER_MS: Final = 0

#: With a linger, a fetch with this much is answered at once: a few hundred records.
FETCH_MIN_BYTES: Final = 128 * 1024

#: A fetch that finds nothing is answered after this.
FETCH_WAIT_MS: Final = 500

#: Per partition and fetch, so that six partitions fill a batch. A longer record still comes whole.
FETCH_PARTITION_BYTES: Final = 1024 * 1024

#: Of one fetch, and so of one batch and broker: what comes of it must be sent and acknowledged well
#: within the transaction's timeout.
FETCH_BYTES: Final = 8 * 1024 * 1024

#: Records of one partition that a producer sends together, unless a topic takes less at once: with
#: the client's own 16 KiB the requests cost more than the records.
PRODUCER_BATCH_BYTES: Final = 128 * 1024

#: One poll that found nothing returns after this, so that a stop is noticed.
POLL_TIMEOUT_S: Final = 0.5

#: Sessions kept decoded, as `state.weight` estimates their memory; colder ones stay as bytes in the
#: store and are decoded when touched. Some 13 000 of usual size; with the local store's 100 MiB and
#: a batch's own a worker stays well below 1 GiB.
RESIDENT_BYTES: Final = 256 * 1024 * 1024

#: Python's collector thresholds while a worker runs: a look at the young objects per half a batch.
COLLECT_EVERY: Final = (50_000, 20, 20)

# --- time -----------------------------------------------------------------------------------------

#: An open transaction holds every read_committed reader, so it may not stay open longer.
TRANSACTION_TIMEOUT_MS: Final = 10_000

#: One transactional call. kafka-python may never return from one (its ``send_offsets`` when the
#: coordinator dies); 8 s outlives a broker's session timeout of 6 s, and recovers sooner than 3 s
#: did, because a rebuild before the new coordinator is elected fails again.
CALL_TIMEOUT_S: Final = 8.0

#: The first try to open a producer; the next ones have ``CALL_TIMEOUT_S``. A client that meets a
#: coordinator on the move may drop its request and wait for ever, where another one is answered.
OPEN_TIMEOUT_S: Final = 3.0

#: Closing an abandoned producer: it has nothing left that matters.
CLOSE_TIMEOUT_S: Final = 1.0

#: A request that is not answered fails. Below the call timeout: the client's own error comes
#: first, which says more.
REQUEST_TIMEOUT_MS: Final = 5_000

#: The same for members of a group: what they ask waits behind their own request to join, and that
#: until a dead member's session has expired.
MEMBER_TIMEOUT_MS: Final = 15_000

#: A produced batch that is not acknowledged fails its futures; below the transaction timeout.
DELIVERY_TIMEOUT_MS: Final = 8_000

#: ``committed()`` waits while a transaction with offsets is open on the group, at most its timeout.
COMMITTED_TIMEOUT_S: Final = 15.0

#: One look for committed offsets and one slice of restoring, while other partitions go on: together
#: the longest that these wait.
DECIDE_S: Final = 0.1
RESTORE_SLICE_S: Final = 0.1

#: The same for a poll while something waits to be restored; the group's business happens in it.
POLL_BUSY_S: Final = 0.01

#: What the loop may wait for an answer that only one partition, or nobody, waits for.
LOOK_S: Final = 2.0

#: Between two looks at the lag; a partition that has some and has not moved for ``STALLED_S`` is
#: reported and started anew, and after twice that the consumer is.
LAG_EVERY_S: Final = 5.0
STALLED_S: Final = 30.0

#: The same while polls are full: then a partition waits for its turn behind what others have.
STALLED_BUSY_S: Final = 120.0

#: A consumer that cannot tell its lag for so long is rebuilt. A group that deals out partitions
#: waits for a busy member as long as that may go without a poll (``MAX_POLL_INTERVAL_MS``).
RESTLESS_S: Final = 150.0

#: Between two looks whether the topics are still those that the worker began with.
SAME_TOPICS_EVERY_S: Final = 30.0

#: Between two looks whether every partition has an owner; what has none in two of them is dealt out
#: anew. Longer than a partition is on its way between two workers.
OWNERLESS_EVERY_S: Final = 10.0

#: A group's coordinator is elected anew, or made with the first group of a new broker.
COORDINATOR_S: Final = 30.0

#: A member that sends no heartbeat loses its partitions after this.
SESSION_TIMEOUT_MS: Final = 10_000

#: Between two polls at most one batch is folded and delivered, its calls each within their timeout.
MAX_POLL_INTERVAL_MS: Final = 120_000

#: A member hears of a rebalance with its next heartbeat, and moving a partition takes two of them.
HEARTBEAT_MS: Final = 1_000

#: Reading a topic without any progress; longer than a transaction may stay open.
READ_STALL_S: Final = 30.0

#: A command that reads topics at rest asks again for so long: a broker is back after some 20 s.
READ_PATIENCE_S: Final = 60.0

#: A worker that has committed nothing for this long gives up, and its supervisor takes over.
RETRY_BUDGET_S: Final = 60.0

#: A replay waits for the workers to get on; longer than a worker needs to be restarted.
REPLAY_STALL_S: Final = 60.0

#: Between two tries: doubled from the first to the last.
RETRY_FIRST_S: Final = 0.2
RETRY_LAST_S: Final = 5.0

#: Twice fenced within this time means a second worker under the same name; once may be our own
#: transaction that timed out while the machine slept.
FENCED_WINDOW_S: Final = 60.0
