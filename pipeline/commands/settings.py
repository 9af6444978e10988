"""``config``: what is in effect, and where it comes from."""

from __future__ import annotations

import argparse

import msgspec

from pipeline import config
from pipeline.plain import visible_line

from .arguments import DONE, Commands, command, json_output, topics
from .terminal import Terminal


def register(commands: Commands) -> None:
    parser = command(
        commands,
        "config",
        show,
        "print the effective configuration",
        about=(
            "An option is taken from the command line, else from the environment, else from the\n"
            "configuration file. What is printed can be used as that file; secrets are masked."
        ),
        example=(
            "foldstream config > foldstream.toml\n"
            "FOLDSTREAM_BOOTSTRAP=broker:9092 foldstream config --prefix test."
        ),
    )
    topics(parser)
    json_output(parser, "it")


def show(settings: config.Config, args: argparse.Namespace, terminal: Terminal) -> int:
    if settings.json:
        terminal.data(msgspec.json.encode(config.masked(settings)))
    else:
        text = config.to_toml(args.effective)
        terminal.text("\n".join(visible_line(line) for line in text.splitlines()))
    return DONE
