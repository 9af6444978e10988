"""The parameters of a query, in one place: what a command's options and a request's fields are
called, and the filter clause that each stands for (readers.md §11, §12).

Values come as text. A range is ``FROM..TO`` with either end open, or one number; ``(none)`` is the
absence of a folder or a parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from operators.readers.filters import AVAILABILITY, SURFACES, FilterError

NONE = "(none)"
AROUND = 5  #: events before and after that of a window


class Parameter(Struct, frozen=True):
    """``kind`` is the clause's; ``form`` how its text is read; ``about`` for a help page."""

    name: str
    kind: str
    form: Literal["range", "values", "text"]
    metavar: str
    about: str

    @property
    def repeated(self) -> bool:
        return self.form == "values"


EVENT_PARAMETERS = (
    Parameter("text", "text", "text", "WORDS", "whose text holds this, whatever its case"),
    Parameter("type", "type", "values", "TYPE", "of this type (repeatable)"),
    Parameter("surface", "surface", "values", "STATE", f"{', '.join(SURFACES)} (repeatable)"),
    Parameter("seq", "seq", "range", "A..B", "with these seqs"),
    Parameter("time", "time", "range", "A..B", "of this time, in ms since 1970"),
)
SESSION_PARAMETERS = (
    Parameter("id", "id", "values", "ID", "with this id (repeatable)"),
    Parameter("cwd", "cwd", "values", "FOLDER", f"of exactly this folder, or {NONE} (repeatable)"),
    Parameter("parent", "parent", "values", "ID", f"of this parent, or {NONE} (repeatable)"),
    Parameter("created", "created-at", "range", "A..B", "created then, in ms since 1970"),
    Parameter(
        "availability",
        "availability",
        "values",
        "WHERE",
        f"{' or '.join(AVAILABILITY)} (repeatable)",
    ),
)


def clauses(
    parameters: Sequence[Parameter], given: Mapping[str, Sequence[str] | None]
) -> list[dict[str, Any]]:
    """The clauses of what was given, in the order of the parameters; None: not given. An empty list
    matches nothing. `FilterError` for a name that is no parameter and for a text that is no range;
    what a clause may hold is for the filter to say."""
    unknown = sorted(given.keys() - {parameter.name for parameter in parameters})
    if unknown:
        known = ", ".join(parameter.name for parameter in parameters)
        raise FilterError(f"no parameter {unknown[0]!r}: one of {known}")
    found = []
    for parameter in parameters:
        values = given.get(parameter.name)
        if values is not None:
            found += _clauses(parameter, values)
    return found


def _clauses(parameter: Parameter, values: Sequence[str]) -> list[dict[str, Any]]:
    kind = parameter.kind
    if parameter.form == "range":
        return [{"kind": kind, **_range(parameter.name, text)} for text in values]
    if parameter.form == "text":
        return [{"kind": kind, "text": text} for text in values]
    nullable = kind in ("cwd", "parent")
    return [{"kind": kind, "values": [None if nullable and v == NONE else v for v in values]}]


def _range(name: str, text: str) -> dict[str, int]:
    low, dots, high = text.partition("..")
    ends = {"from": low, "to": high if dots else low}
    try:
        return {end: int(number) for end, number in ends.items() if number.strip()}
    except ValueError:
        raise FilterError(f"{name} {text!r} is no range: say 5..9, 5.., ..9 or 5") from None
