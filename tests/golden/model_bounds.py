"""The model's knowledge of what is open: turns, steps and the boundaries that closed them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.golden.model_log import Ev

Place = tuple[int | None, int | None]
Boundary = tuple[int, int | None]  #: seq and time of the event that closed something


@dataclass
class Bounds:
    """Follow it event by event with :meth:`see`; ask about a place before or after.

    A closed turn is forgotten but for its number (§5.7): its steps have no boundary any more."""

    turn: int | None = None
    step: int | None = None
    closed_turns: set[int | None] = field(default_factory=set)
    closed_steps: dict[Place, Boundary] = field(default_factory=dict)
    reopened: set[Place] = field(default_factory=set)
    ever_closed: set[int | None] = field(default_factory=set)

    def place(self, ev: Ev) -> Place:
        """Turn and step of an event: its own, else the open ones."""
        turn = ev.turn if "turn" in ev.data else self.turn
        return turn, (ev.step if "step" in ev.data else self.step)

    def forgotten(self, place: Place) -> bool:
        """The turn of ``place`` has ended, and neither it nor the step was started again."""
        return place[0] in self.closed_turns and place not in self.reopened

    def boundary(self, place: Place) -> Boundary | None:
        return self.closed_steps.get(place)

    def see(self, ev: Ev) -> list[Place] | None:
        """Apply one event; the answer is what to close: None nothing, [] the whole turn (its
        number is ``ended``), else the one step."""
        if ev.type == "turn/start":
            self.turn, self.step = ev.turn, None
            self.closed_turns.discard(ev.turn)
        elif ev.type == "step/start":
            place = self.place(ev)
            self.turn, self.step = place
            self.closed_steps.pop(place, None)
            if place[0] in self.closed_turns:
                self.reopened.add(place)
        elif ev.type == "step/end":
            place = self.place(ev)
            if not self.forgotten(place):
                self.closed_steps.setdefault(place, (ev.seq, ev.time))
            if self.step == place[1]:
                self.step = None
            return [place]
        elif ev.type == "turn/end":
            self._drop(ev.turn)
            self.closed_turns.add(ev.turn)
            self.ever_closed.add(ev.turn)
            if self.turn == ev.turn:
                self.turn = self.step = None
            return []
        return None

    def _drop(self, turn: int | None) -> None:
        self.closed_steps = {p: b for p, b in self.closed_steps.items() if p[0] != turn}
        self.reopened = {p for p in self.reopened if p[0] != turn}
