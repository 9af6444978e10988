"""``topics``, ``verify``: what is on the topics, and whether it is right."""

from __future__ import annotations

import argparse

import msgspec

from pipeline import limits, topics
from pipeline.config import Config
from pipeline.plain import visible_line
from pipeline.ports import Reader
from pipeline.topics import Names
from pipeline.verify import Verdict, verify

from . import arguments, brokers
from .arguments import DONE, FAILED, Commands, command, json_output, number
from .terminal import Terminal


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
        about=(
            "Every surface, row, overview and dead letter up to what the workers have committed.\n"
            "The workers must be at rest. Exits 1 and names the first difference."
        ),
        example="foldstream verify --bootstrap broker:9092",
    )
    arguments.topics(parser)
    number(parser, "--max-row-bytes", "as the workers were given (8 MiB)")
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
    """The verdict, and the first difference if there is one."""
    with brokers.reader(settings, "events") as reader:
        verdict = judged(reader, brokers.names(settings), settings, terminal)
    if settings.json:
        terminal.data(msgspec.json.encode(verdict))
    else:
        terminal.text(sentence(verdict))
    return DONE if verdict.ok else FAILED


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

        return verify(reader, names, settings.max_row_bytes, told)


def sentence(verdict: Verdict) -> str:
    """The verdict for a person, in one line."""
    if verdict.mismatch is not None:
        return f"verify: FAILED: {visible_line(str(verdict.mismatch))}"
    proven = (
        f"{verdict.sessions} sessions, {verdict.surface} surface changes, {verdict.rows} rows, "
        f"{verdict.dead_letters} dead letters from {verdict.events} events"
    )
    notes = [f"{verdict.behind} events not folded yet"] if verdict.behind else []
    if verdict.unprovable:
        some = ", ".join(visible_line(session) for session in verdict.unprovable[:3])
        notes.append(f"{len(verdict.unprovable)} sessions unprovable, e.g. {some}")
    return "; ".join([f"verify: ok ({proven})", *notes])
