"""``deadletter``: what was refused, and why."""

from __future__ import annotations

import argparse

import msgspec

from pipeline.config import Config
from pipeline.deadletter import Listed, read_letters
from pipeline.plain import visible_line

from . import arguments, brokers
from .arguments import DONE, Commands, command, json_output, number
from .terminal import Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "deadletter",
        list_letters,
        "list what was refused, with its reason and coordinates",
        example="foldstream deadletter list --limit 20\nfoldstream deadletter list --json",
    )
    parser.add_argument("what", choices=("list",))
    arguments.topics(parser)
    number(parser, "--limit", "at most so many")
    json_output(parser, "each dead letter, bytes as base64,")


def list_letters(settings: Config, _: argparse.Namespace, terminal: Terminal) -> int:
    """A line per dead letter, oldest first within a partition."""
    count = 0
    with brokers.reader(settings, "deadletter") as reader:
        topic = brokers.names(settings).of("deadletter")
        for listed in read_letters(reader, topic, settings.limit):
            count += 1
            if settings.json:
                terminal.data(msgspec.json.encode(listed.letter or listed.record))
            else:
                terminal.text(letter_line(listed))
    terminal.say(f"{count} dead letters")
    return DONE


def letter_line(listed: Listed) -> str:
    """Reason, where it came from, whose it is, and the reason in words."""
    letter = listed.letter
    if letter is None:
        at = f"{listed.record.topic}[{listed.record.partition}]@{listed.record.offset}"
        return f"{visible_line(at)}: not a dead letter of ours"
    at = f"{letter.topic}[{letter.partition}]@{letter.offset}"
    whose = f"{letter.session or '-'} seq {'-' if letter.fault_seq is None else letter.fault_seq}"
    return visible_line(f"{letter.reason:<24} {at:<28} {whose:<28} {letter.message}")
