"""Turns: which one is open, what each has measured, and which numbers are closed (§5.6, §5.7).

A turn's record lives until its number ends; then only the number stays, in a list of ranges. For a
closed number a late event may make a new record, a *pocket* (``open`` false): it holds what such
events left until that number ends again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from .events import Usage


class Turn(msgspec.Struct):
    """One turn that has not ended. The figures are those of the ``turn`` row; ``closing`` is anchor
    seq, rank and time of its latest assistant row with text, ``steps`` keys of its step records."""

    number: int | None
    open: bool
    started: bool = False
    start_time: int | None = None
    first_step: int | None = None
    step_ends: int = 0
    ttft_ms: int | None = None
    decode_ms: int | None = None
    decode_tokens: int | None = None
    usage: Usage | None = None
    closing: tuple[int, int, int | None] | None = None
    steps: list[int] = []

    def fork(self) -> Turn:
        return replace(self, steps=self.steps.copy())


class Turns:
    """The open turn and step, the records of turns that have not ended, the closed numbers."""

    __slots__ = ("closed", "open_step", "open_turn", "records")

    def __init__(self) -> None:
        self.open_turn: int | None = None
        self.open_step: int | None = None
        self.records: dict[int | None, Turn] = {}
        self.closed: list[tuple[int, int]] = []

    def fork(self) -> Turns:
        twin = Turns.__new__(Turns)
        twin.open_turn, twin.open_step = self.open_turn, self.open_step
        twin.records = {number: turn.fork() for number, turn in self.records.items()}
        twin.closed = self.closed.copy()
        return twin

    def place(self, turn: int | None, step: int | None) -> tuple[int | None, int | None]:
        """Turn and step of an event: its own, else the open ones."""
        if turn is None:
            turn = self.open_turn
        if step is None and turn == self.open_turn:
            step = self.open_step
        return turn, step

    def is_closed(self, number: int | None) -> bool:
        """Whether that number has ended and was not opened again."""
        if number is None:
            return False
        record = self.records.get(number)
        if record is not None and record.open:
            return False
        at = bisect_right(self.closed, (number, float("inf"))) - 1
        return at >= 0 and number <= self.closed[at][1]

    def record(self, number: int | None) -> Turn:
        """The record of that number, made when there is none."""
        found = self.records.get(number)
        if found is None:
            found = self.records[number] = Turn(number, open=not self.is_closed(number))
        return found

    def start(self, number: int, time: int | None) -> None:
        """``turn/start``: opens a number, also a closed one; its figures start anew."""
        old = self.records.get(number)
        turn = self.records[number] = Turn(number, open=True, started=True, start_time=time)
        if old is not None:
            turn.steps = old.steps
        self.open_turn, self.open_step = number, None

    def end(self, number: int | None) -> None:
        """Forget the record and close the number."""
        self.records.pop(number, None)
        if number is not None:
            self._close(number)
        if number == self.open_turn:
            self.open_turn = self.open_step = None

    def _close(self, number: int) -> None:
        at = bisect_right(self.closed, (number, float("inf")))
        first = last = number
        if at < len(self.closed) and self.closed[at][0] == number + 1:
            last = self.closed.pop(at)[1]
        if at and self.closed[at - 1][1] >= number - 1:
            at -= 1
            first, before = self.closed.pop(at)
            last = max(last, before)
        self.closed.insert(at, (first, last))

    def __iter__(self) -> Iterator[Turn]:
        return iter(self.records.values())
