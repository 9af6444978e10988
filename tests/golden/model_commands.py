"""The model's command and compaction rows, and which of them are one (§5.3, §5.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.model_log import Ev, blank, checkpoint, seq, text


@dataclass
class Marker:
    """A landed checkpoint."""

    ev: Ev
    compaction_id: str | None
    command_id: str | None
    summary_ev: Ev | None
    fallback: bool = False  #: the summary is not cited

    @property
    def fields(self) -> dict[str, Any]:
        data = self.summary_ev.data if self.summary_ev else {}
        listed = data.get("shadowedSeqs")
        counted = isinstance(listed, list) and all(seq(n) is not None for n in listed)
        return {
            "summary": summary_text(data.get("summary")),
            "summaryEventSeq": self.summary_ev.seq if self.summary_ev else None,
            "shadowedItemCount": len(listed) if isinstance(listed, list) and counted else None,
            "shadowedTokenCount": seq(data.get("shadowedTokenCount")),
        }


@dataclass
class Command:
    """One run, with the latest done that names it."""

    command_id: str
    run: Ev | None = None
    done: Ev | None = None
    marker: Marker | None = None
    first_done: Ev | None = None

    @property
    def seq(self) -> int:
        first = self.run or self.first_done
        assert first is not None
        return first.seq

    @property
    def name(self) -> str | None:
        return text(self.run.data.get("name")) if self.run else None

    @property
    def outcome(self) -> dict[str, Any] | None:
        if self.done is None:
            return None
        data = self.done.data
        kind = "success" if data.get("kind") == "success" else "error"
        told: dict[str, Any] = {"kind": kind}
        if isinstance(data.get("text"), str):
            told["text"] = data["text"]
        if kind == "success" and (cited := seq(data.get("sourceEventSeq"))) is not None:
            told["sourceEventSeq"] = cited
        return told

    @property
    def early(self) -> bool:
        """Done before it ran."""
        return bool(self.run and self.first_done and self.first_done.seq < self.run.seq)

    @property
    def cited(self) -> int | None:
        told = self.outcome
        return told.get("sourceEventSeq") if told else None


def summary_text(blocks: Any) -> str | None:
    listed = blocks if isinstance(blocks, list) else []
    pieces = [
        b["text"]
        for b in listed
        if isinstance(b, dict) and b.get("type") == "text" and isinstance(b.get("text"), str)
    ]
    whole = "".join(pieces)
    return None if blank(whole) else whole


@dataclass
class Commands:
    events: list[Ev]
    commands: list[Command] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)

    def __post_init__(self) -> None:
        summaries: dict[int, Ev] = {}
        for ev in self.events:
            if ev.type == "compaction/summary":
                summaries[ev.seq] = ev
            elif ev.type == "command/run":
                self._run(ev)
            elif ev.type == "command/done":
                self._done(ev)
            elif ev.type == "user/message" and ev.replaces and checkpoint(ev) is not None:
                self._land(ev, summaries)
        self._fill(summaries)
        self._join()

    def _run(self, ev: Ev) -> None:
        name = text(ev.data.get("commandId"))
        if name is None:
            return
        orphan = next((c for c in self.commands if c.command_id == name and c.run is None), None)
        if orphan is not None:
            orphan.run = ev
        else:
            self.commands.append(Command(name, run=ev))

    def _done(self, ev: Ev) -> None:
        name = text(ev.data.get("commandId"))
        if name is None:
            return
        known = [c for c in self.commands if c.command_id == name]
        if known:
            known[-1].done = ev
        else:
            self.commands.append(Command(name, done=ev, first_done=ev))

    def _land(self, ev: Ev, summaries: dict[int, Ev]) -> None:
        source = checkpoint(ev) or {}
        cited = next((summaries[n] for n in ev.cited() if n in summaries), None)
        ids = text(source.get("compactionId")), text(source.get("sourceCommandId"))
        self.markers.append(Marker(ev, *ids, cited))

    def _fill(self, summaries: dict[int, Ev]) -> None:
        """A checkpoint that cites no summary takes the only uncited earlier one of its id."""
        cited = {m.summary_ev.seq for m in self.markers if m.summary_ev}
        for marker in self.markers:
            if marker.summary_ev is not None or marker.compaction_id is None:
                continue
            own = [
                s
                for s in summaries.values()
                if s.seq < marker.ev.seq and s.data.get("compactionId") == marker.compaction_id
            ]
            if len(own) == 1 and own[0].seq not in cited:
                marker.summary_ev, marker.fallback = own[0], True

    def _join(self) -> None:
        found: list[tuple[Command, Marker]] = []
        for command in self.commands:
            marker = self._proved(command)
            if marker is not None:
                found.append((command, marker))
        for command, marker in found:
            if sum(m is marker for _, m in found) == 1:
                command.marker = marker

    def proofs(self, command: Command) -> bool:
        """Whether any proof, good or not, connects the command with a marker."""
        return any(self._linked(command, marker) for marker in self.markers)

    def claimed(self, marker: Marker) -> bool:
        """Whether any proof, good or not, connects the marker with a command."""
        return any(self._linked(command, marker) for command in self.commands)

    def _linked(self, command: Command, marker: Marker) -> bool:
        cited = command.cited is not None and command.cited == marker.fields["summaryEventSeq"]
        return cited or marker.command_id == command.command_id

    def _proved(self, command: Command) -> Marker | None:
        if sum(c.command_id == command.command_id for c in self.commands) > 1:
            return None
        one = [m for m in self.markers if m.command_id == command.command_id]
        two: list[Marker] = []
        if command.name == "compact" and command.cited is not None:
            two = [m for m in self.markers if m.fields["summaryEventSeq"] == command.cited]
            rivals = [c for c in self.commands if c.name == "compact" and c.cited == command.cited]
            if len(two) != 1 or len(rivals) != 1:
                two = []
        if len(one) == 1 and (not two or two[0] is one[0]):
            return one[0]
        free = len(two) == 1 and two[0].command_id in (None, command.command_id)
        return two[0] if not one and free else None
