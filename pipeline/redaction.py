"""Redaction rules out of a TOML file (``--redaction``), checked before anything is folded.

    [[rule]]
    pattern = 'sk-[A-Za-z0-9]{20,}'   # what matches is taken out of every text that leaves
    replacement = "[key]"             # default "[redacted]"

    [[rule]]
    rows = ["tool"]                   # kinds of rows, or "overview"; default all
    fields = ["arguments"]            # of their data; without a pattern all of it is taken

A rule that cannot be understood, or that could take nothing, is refused: no worker starts with it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from schemas.redaction import Redaction
from schemas.redaction_rules import KINDS, REDACTED, Rule, fields_of

from .config import Config, ConfigError


class _Rule(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str | None = None
    replacement: str = REDACTED
    rows: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[_Rule, ...] = ()


def of_settings(settings: Config) -> Redaction | None:
    """The rules that are in effect; None: none are. `ConfigError` for a file that is none."""
    return None if settings.redaction is None else read_redaction(Path(settings.redaction))


def read_redaction(path: Path) -> Redaction:
    """`ConfigError` says what is wrong and where."""
    try:
        told = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"--redaction {path}: {error}", "see its example in the README"
        ) from error
    if not told.rule:
        raise ConfigError(f"--redaction {path} holds no rule", "write [[rule]], or leave it out")
    return Redaction(_rule(path, number, each) for number, each in enumerate(told.rule, 1))


def _rule(path: Path, number: int, told: _Rule) -> Rule:
    where = f"--redaction {path}: rule {number}"
    for kind in told.rows:
        if kind not in KINDS:
            _refuse(where, f"there are no {kind!r} rows", f"one of {', '.join(KINDS)}")
    known = fields_of(told.rows)
    for field in told.fields:
        if field not in known:
            _refuse(where, f"no such row has {field!r}", f"one of {', '.join(sorted(known))}")
    if told.pattern is None and not told.fields:
        _refuse(where, "has neither pattern nor fields", "say what is to be taken")
    return Rule(
        None if told.pattern is None else _pattern(where, told.pattern),
        told.replacement,
        frozenset(told.rows),
        frozenset(told.fields),
    )


def _pattern(where: str, text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        _refuse(where, f"pattern: {error}", "write a regular expression of Python's `re`")
    if pattern.match(""):
        _refuse(where, "pattern matches where nothing is", "let it match one character at least")
    return pattern


def _refuse(where: str, what: str, remedy: str) -> NoReturn:
    raise ConfigError(f"{where}: {what}", remedy)
