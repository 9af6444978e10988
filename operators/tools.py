"""Tool rows: calls paired with their results through the announcing message (projection.md §5.2).

``tool/call`` carries no surface marker. Its row belongs to the transcript because an append-origin
assistant message announced the call id, or because an append-origin result was logged for it; never
because anything is on the surface, so no compaction unpairs it.
"""

from __future__ import annotations

import msgspec
from immutables import Map

from .events import Dispatch, Event, ToolCall, ToolResult
from .nested import Nested, interrupted, settled, started
from .out import Out, RowPlace
from .table import Table
from .tool import Boundary, Tool, interrupted_tool, resulted_tool, tool_data


class Announcement(msgspec.Struct, frozen=True):
    """The message that announced a call id, and where."""

    seq: int
    turn: int | None
    step: int | None


class Tools:
    """Tool rows of turns that have not ended, and earlier calls without a logged result."""

    __slots__ = ("announced", "by_id", "nested", "table", "unpaired")

    def __init__(self) -> None:
        self.table: Table[Tool] = Table()
        self.by_id: Map[str, tuple[int, ...]] = Map()
        self.unpaired: Map[str, tuple[int, ...]] = Map()  # calls without a logged result
        self.announced: Map[str, tuple[Announcement, ...]] = Map()  # by seq
        self.nested = Nested()

    def fork(self) -> Tools:
        twin = Tools.__new__(Tools)
        twin.table, twin.by_id, twin.unpaired = self.table.fork(), self.by_id, self.unpaired
        twin.announced, twin.nested = self.announced, self.nested.fork()
        return twin

    # --- what is logged -----------------------------------------------------------------------

    def announce(
        self, seq: int, turn: int | None, step: int | None, calls: tuple[str, ...]
    ) -> None:
        said = Announcement(seq, turn, step)
        for call_id in calls:
            held = self.announced.get(call_id, ())
            self.announced = self.announced.set(call_id, (*held, said))

    def forget_announcements(self, turn: int | None, call_ids: list[str]) -> None:
        """An ended turn's messages announce nothing any more."""
        for call_id in call_ids:
            held = self.announced.get(call_id)
            if held is not None:
                left = tuple(said for said in held if said.turn != turn)
                self.announced = (
                    self.announced.set(call_id, left) if left else self.announced.delete(call_id)
                )

    def announce_late(
        self, seq: int, turn: int | None, step: int | None, call_id: str, out: Out
    ) -> None:
        """A message logged after the call announces it in the call's turn and step only."""
        for key in self.by_id.get(call_id, ()):
            tool = self.table[key]
            if tool.announced_by is None and tool.turn == turn and tool.step == step:
                self._put(msgspec.structs.replace(tool, announced_by=seq), seq, out)

    def call(
        self,
        event: Event,
        body: ToolCall,
        place: tuple[int | None, int | None],
        boundary: Boundary | None,
        out: Out,
    ) -> Tool:
        """``tool/call``: completes a result of the same id, turn and step that came first, else
        makes a row; one logged after its boundary is interrupted at once."""
        assert body.call_id is not None
        seq, time = event.seq, event.time
        turn, step = place
        said = self.announced.get(body.call_id)
        announced_by = said[-1].seq if said else None
        first = self._nameless(body.call_id, turn, step)
        made = Tool(seq, turn, step, body.call_id) if first is None else first
        tool = msgspec.structs.replace(
            made,
            name=body.name,
            arguments=body.arguments,
            call_seq=seq,
            call_time=time,
            announced_by=made.announced_by if announced_by is None else announced_by,
        )
        if first is None:
            if boundary is not None:
                tool = interrupted_tool(tool, boundary)
            self._index(tool)
            _push(self, "unpaired", tool.call_id, tool.key)
        self._put(tool, seq, out)
        if first is None:
            self._attach_waiting(tool, boundary, seq, out)
        return tool

    def result(
        self,
        event: Event,
        body: ToolResult,
        place: tuple[int | None, int | None],
        boundary: Boundary | None,
        out: Out,
    ) -> Tool | None:
        """An append-origin ``tool/result``: joins the latest call of its id that has none; None
        when it is a second one and dropped."""
        assert body.call_id is not None
        seq, time = event.seq, event.time
        waiting = self.unpaired.get(body.call_id)
        if waiting:
            tool = self.table[waiting[-1]]
            _pull(self, "unpaired", tool.call_id, tool.key)
        elif self._settled(body.call_id, *place):
            return None
        else:
            said = self.announced.get(body.call_id)
            tool = Tool(seq, *place, body.call_id, announced_by=said[-1].seq if said else None)
            self._index(tool)
        joined = resulted_tool(tool, seq, time, body)
        self._put(joined, seq, out)
        if not waiting:
            self._attach_waiting(joined, boundary, seq, out)
        return joined

    def dispatch(
        self, seq: int, body: Dispatch, tool: Tool, boundary: Boundary | None
    ) -> bool | None:
        """A nested call's start or settling under ``tool``: whether it changed what is shown; None
        when it is dropped."""
        assert body.sub_call_id is not None
        parent = body.parent_call_id
        if parent is None:
            return None
        sub = self.nested.find(tool.key, body.sub_call_id)
        if sub is None and not self.nested.edge_allowed(
            tool.key, tool.call_id, parent, body.sub_call_id
        ):
            return None
        if sub is not None and sub.parent != parent:
            return None
        turn = settled if body.settled else started
        changed = turn(sub, tool.key, seq, body, parent)
        if changed.status == "running" and boundary is not None:
            changed = interrupted(changed, boundary[0])
        if changed == sub:
            return False
        self.nested.put(changed)
        return self.nested.is_shown(changed, tool.call_id)

    def latest(self, call_id: str) -> Tool | None:
        keys = self.by_id.get(call_id)
        return self.table[keys[-1]] if keys else None

    # --- boundaries ---------------------------------------------------------------------------

    def close(self, keys: list[int], boundary: Boundary, out: Out) -> None:
        """A step or turn closes: its open calls and nested calls are interrupted."""
        for key in keys:
            tool = self.table[key]
            nested = self.nested.interrupt(key, tool.call_id, boundary[0])
            if tool.status == "running":
                self._put(interrupted_tool(tool, boundary), boundary[0], out)
            elif nested:
                self.publish(tool, boundary[0], out)

    def forget(self, keys: list[int]) -> None:
        """The turn ended: calls with a logged result go, with their nested calls (§5.7)."""
        for key in keys:
            tool = self.table[key]
            if tool.logged:
                _pull(self, "by_id", tool.call_id, key)
                self.nested.forget(key)
                self.table.drop(key)

    # --- inside -------------------------------------------------------------------------------

    def _nameless(self, call_id: str, turn: int | None, step: int | None) -> Tool | None:
        for key in reversed(self.by_id.get(call_id, ())):
            tool = self.table[key]
            if tool.call_seq is None and tool.turn == turn and tool.step == step:
                return tool
        return None

    def _settled(self, call_id: str, turn: int | None, step: int | None) -> bool:
        """Whether a further result of that id would be a second one."""
        tools = (self.table[key] for key in reversed(self.by_id.get(call_id, ())))
        return any(t.call_seq is not None or (t.turn == turn and t.step == step) for t in tools)

    def _attach_waiting(self, tool: Tool, boundary: Boundary | None, rev: int, out: Out) -> None:
        waited = self.nested.arrived(tool.call_id)
        for dispatch in waited:
            if self.dispatch(dispatch.key, dispatch.body, tool, boundary) is None:
                out.dropped_dispatches += 1
        if waited:
            self.publish(tool, rev, out)

    def _index(self, tool: Tool) -> None:
        _push(self, "by_id", tool.call_id, tool.key)

    def _put(self, tool: Tool, rev: int, out: Out) -> None:
        self.table.put(tool.key, tool)
        self.publish(tool, rev, out)

    def publish(self, tool: Tool, rev: int, out: Out) -> None:
        visible = tool.logged or tool.announced_by is not None
        time = tool.call_time if tool.call_seq is not None else tool.result_time
        place = RowPlace("tool", tool.key, tool.anchor, 0, rev, visible, tool.turn, tool.step, time)
        if tool.key in self.nested.of_root:
            nested = self.nested.fork()
            out.row(place, lambda: tool_data(tool, nested))
        else:
            out.row(place, tool_data(tool, None))


def _push(tools: Tools, index: str, call_id: str, key: int) -> None:
    held: Map[str, tuple[int, ...]] = getattr(tools, index)
    setattr(tools, index, held.set(call_id, (*held.get(call_id, ()), key)))


def _pull(tools: Tools, index: str, call_id: str, key: int) -> None:
    held: Map[str, tuple[int, ...]] = getattr(tools, index)
    left = tuple(other for other in held.get(call_id, ()) if other != key)
    setattr(tools, index, held.set(call_id, left) if left else held.delete(call_id))
