"""A log folded with the small readers beside it, as a worker will do it: every accepted event goes
to the rooms that have a handler for its body."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from operators.events import AssistantMessage, Event, Line, LogOnly, Title
from operators.readers.answers import Told
from operators.readers.facts import FACTS, Fact, Titled
from operators.readers.projections import Projections, Values
from operators.session import Out, Session
from operators.surface import Node
from schemas.inbound import read_line
from tests.operators.build import numbered
from tests.operators.records import Json


class _Data(Struct):
    data: Raw = Raw(b"null")


def with_facts(line: Line, raw: bytes) -> Line:
    """The line with the data that readers look at, if its reader left it out."""
    if not isinstance(line, Event):
        return line
    if type(line.body) is LogOnly and line.type in FACTS:
        return replace(line, body=Fact(_data(raw)))
    if type(line.body) is Title:
        return replace(line, body=Titled(line.body.title, _data(raw)))
    return line


def _bare(line: Line) -> Line:
    """The line as the session's own fold knows it."""
    body: object = line.body if isinstance(line, Event) else None
    if isinstance(body, Fact):
        return replace(line, body=LogOnly())
    return replace(line, body=Title(body.title)) if isinstance(body, Titled) else line


def _data(raw: bytes) -> Raw:
    try:
        return msgspec.json.decode(raw, type=_Data).data
    except msgspec.DecodeError:
        return Raw(json.dumps(json.loads(raw.decode("utf-8", "replace")).get("data")).encode())


def read(raw: bytes) -> Line:
    return with_facts(read_line(raw), raw)


class Playing:
    """Session and readers after some lines. ``whole``: an inherited prefix counts, too."""

    def __init__(self, session: str | None = "golden", *, whole: bool = True) -> None:
        self.session = Session(session)
        self.rooms = Projections(whole=whole)
        self.events: list[Event] = []
        self.nodes: dict[int, Node] = {}
        self.shadowed_by: dict[int, int] = {}
        self.messages: dict[int, tuple[str | None, Raw | None]] = {}

    def fork(self) -> Playing:
        twin = Playing()
        twin.session, twin.rooms = self.session.fork(), self.rooms.fork()
        twin.events = [*self.events]
        twin.nodes, twin.shadowed_by = {**self.nodes}, {**self.shadowed_by}
        twin.messages = {**self.messages}
        return twin

    def take_all(self, lines: Iterable[Line]) -> Playing:
        for line in lines:
            self.take(line)
        return self

    def take(self, line: Line) -> None:
        before, out = self.session.next_seq, Out(partials=False)
        self.session.take(_bare(line), out)
        if not isinstance(line, Event) or out.refused or self.session.next_seq <= before:
            return
        self.events.append(line)
        gone: list[Node] = []
        for change in out.surface:
            if change.op not in ("append", "replace"):
                continue
            gone += [self.nodes.pop(seq) for seq in change.shadowed if seq in self.nodes]
            self.shadowed_by |= dict.fromkeys(change.shadowed, change.seq)
            self.messages[change.seq] = (change.type, change.message)
            self.nodes[change.seq] = self._node(line)
        self.rooms.take(line, self.session, tuple(gone))

    def _node(self, event: Event) -> Node:
        """The node with the number of calls in it."""
        node = self.session.surface.find(event.seq)
        assert node is not None
        body = event.body
        return replace(node, identity=len(body.calls)) if type(body) is AssistantMessage else node

    # --- what is asked ---------------------------------------------------------------------------

    def surface(self) -> list[Node]:
        """The current nodes in surface order."""
        return [self.nodes[node.seq] for node in self.session.surface.nodes()]

    def told(self) -> Told:
        """What answers are read from."""
        return Told(self.events, self.surface(), self.shadowed_by, self.session.last_time)

    def mark(self, seq: int) -> str:
        return "C" if seq in self.nodes else "S" if seq in self.shadowed_by else "-"

    @property
    def quality(self) -> dict[str, int]:
        """What the readers noted."""
        return {k: n for k, n in self.session.quality.items() if k.startswith("reader:")}

    def values(self) -> Values:
        return self.rooms.values(self.session.last_time)


def play(lines: Iterable[bytes]) -> Playing:
    """The lines of a log without a header, folded."""
    return Playing().take_all(map(read, lines))


def tell(*records: Json) -> Playing:
    """Makers' records (``tests/operators/records.py``), numbered and folded."""
    return play(json.dumps(record).encode() for record in numbered(records))
