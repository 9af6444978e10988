"""``topics``, ``verify``: what is on the topics, and whether it is right."""

from __future__ import annotations

import argparse

import msgspec
from msgspec import structs

from pipeline import limits, redaction, topics
from pipeline.config import Config
from pipeline.patterns import matcher
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.topics import Names
from pipeline.verify import ROUNDS, Verdict, verify

from . import arguments, brokers
from .arguments import DONE, FAILED, REFUSED, Commands, command, json_output, number
from .terminal import Terminal

VERIFY = """\
Folds the events afresh up to what the workers have committed, and compares key, value and headers
of every surface change, every last row and overview, and every dead letter. Workers may go on: a
session that is being written is folded on to a later cut, and its topics must have been right at a
point in between. A session whose first records have expired is unprovable, which is no fault. For
each session that differs the first difference is named.

The digest of a topic is the same on two clusters that hold the same, wherever it stands: per
session (events, surface) or key (transcript, overview; its last record), over key, value and
headers, in any order and without offsets and timestamps; dead letters without their coordinates.
Compare them when the workers are at rest.

Needs about 200 bytes of disk per row and session in the temporary folder (TMPDIR), and memory that
does not grow. Exits 0 = proven, 1 = something differs, 3 = nothing differs, but some sessions that
are being written were not decided within --rounds."""


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "topics",
        check_topics,
        "check the topics, or create those that are missing",
        about="Says exactly what differs and how to put it right; exits 1 if anything does.",
        example=(
            "foldstream topics create --partitions 12 --replication 3\nfoldstream topics check"
        ),
    )
    parser.add_argument("what", nargs="?", choices=("check", "create"), default="check")
    arguments.topics(parser)
    number(parser, "--partitions", "of every topic but the dead letters (those of events, else 6)")
    number(parser, "--replication", "copies of each partition (1)")
    json_output(parser, "each difference")
    parser = command(
        commands,
        "verify",
        prove,
        "prove the topics against a fresh fold of the events",
        about=VERIFY,
        example=(
            "foldstream verify --bootstrap broker:9092\n"
            "foldstream verify --session 0197f3a2 --json | jq .differences"
        ),
    )
    arguments.topics(parser)
    parser.add_argument("--session", metavar="ID", help="prove this session alone")
    number(parser, "--max-row-bytes", "as the workers were given (8 MiB)")
    arguments.strict_sessions(parser, "sessions that park at their first fault, as for the workers")
    arguments.redaction(parser, "rules of what is taken out, as for the workers")
    number(parser, "--rounds", f"later cuts for sessions that are being written ({ROUNDS})")
    json_output(parser, "the verdict")


# --- topics ---------------------------------------------------------------------------------------


def check_topics(settings: Config, args: argparse.Namespace, terminal: Terminal) -> int:
    """Create what is missing if asked to, then say what differs."""
    from pipeline.kafka.admin import KafkaTopics  # noqa: PLC0415 - files need no Kafka client

    names = brokers.names(settings)
    with KafkaTopics(brokers.cluster(settings)) as admin:
        events = admin.describe([names.of("events")]).get(names.of("events"))
        there = events.partitions if events else limits.PARTITIONS
        wanted = topics.specs(names, settings.partitions or there)
        if args.what == "create":
            admin.create(wanted, settings.replication, terminal.say)
        different = admin.check(wanted)
    for difference in different:
        if settings.json:
            terminal.data(msgspec.json.encode(difference))
        else:
            terminal.text(visible_line(str(difference)))
    if not different:
        terminal.say(f"{len(wanted)} topics on {settings.bootstrap}: as they should be")
    return FAILED if different else DONE


# --- verify ---------------------------------------------------------------------------------------


def prove(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """The verdict: each difference, what the topics hold, and one line that sums up."""
    with brokers.reader(settings, "events") as reader:
        verdict = judged(reader, brokers.names(settings), settings, terminal)
    if settings.json:
        terminal.data(msgspec.json.encode({"ok": verdict.ok, **structs.asdict(verdict)}))
    else:
        for difference in verdict.differences:
            terminal.text(visible_line(str(difference)))
        for found in verdict.topics.values():
            terminal.text(f"{found.topic:<24} {found.count:>10}  digest {found.digest}")
        terminal.text(sentence(verdict))
    if verdict.differing:
        return FAILED
    return DONE if verdict.ok else REFUSED


def judged(reader: Reader, names: Names, settings: Config, terminal: Terminal) -> Verdict:
    """`verify` with progress."""
    with terminal.progress("verify", "records") as step:
        before, last, reading = 0, 0, ""

        def told(topic: str, done: int, _: int) -> None:
            """Counts begin anew with every topic and partition."""
            nonlocal before, last, reading
            if topic != reading or done < last:
                before, reading = before + last, topic
            last = done
            step(before + last)

        return verify(
            reader,
            names,
            settings.max_row_bytes,
            told,
            session=settings.session,
            rounds=settings.rounds,
            strict=matcher(settings.strict_sessions),
            redact=redaction.of_settings(settings),
        )


def sentence(verdict: Verdict) -> str:
    """The verdict for a person, in one line."""
    proven = (
        f"{verdict.sessions} sessions, {verdict.surface} surface changes, {verdict.rows} rows, "
        f"{verdict.dead_letters} dead letters from {verdict.events} events"
    )
    said = f"ok ({proven})"
    if verdict.differing:
        first = f", first {visible_line(str(verdict.mismatch))}" if verdict.mismatch else ""
        said = f"FAILED: {verdict.differing} differ{first}"
    elif verdict.undecided_count:
        said = f"UNDECIDED ({proven})"
    notes = [f"{verdict.behind} events not folded yet"] if verdict.behind else []
    for count, word, sessions in (
        (verdict.undecided_count, "undecided within --rounds", verdict.undecided),
        (verdict.unprovable_count, "unprovable", verdict.unprovable),
    ):
        if count:
            some = ", ".join(visible_line(session) for session in sessions[:3])
            notes.append(f"{count} sessions {word}, e.g. {some}")
    return "; ".join([f"verify: {said}", *notes])
