"""What tool events change: rows, their step, counts and quality facts (projection.md §5.2)."""

from __future__ import annotations

from .events import Append, Dispatch, Event, ToolCall, ToolResult
from .out import Out
from .rooms import Rooms
from .tool import Tool


def on_tool_call(rooms: Rooms, event: Event, body: ToolCall, out: Out) -> None:
    if body.call_id is None:
        return rooms.note("malformed")
    place = rooms.turns.place(body.turn, body.step)
    boundary = rooms.boundary(*place, event)
    tool = rooms.tools.call(event, body, place, boundary, out)
    rooms.note_dropped(out)
    if tool.announced_by is None and not rooms.order.is_window:
        rooms.note("unannounced_call")
    if tool.key == event.seq:
        _own_tool(rooms, event, tool)
    return None


def on_tool_result(rooms: Rooms, event: Event, body: ToolResult, out: Out) -> None:
    if body.call_id is None:
        return rooms.note("malformed")
    if not isinstance(event.marker, Append):
        return None
    place = rooms.turns.place(body.turn, body.step)
    boundary = rooms.boundary(*place, event)
    tool = rooms.tools.result(event, body, place, boundary, out)
    rooms.note_dropped(out)
    if tool is None:
        return rooms.note("result_dropped")
    if tool.key == event.seq:
        _own_tool(rooms, event, tool)
    else:
        _belongs(rooms, event, tool)
    if tool.status == "error" and tool.anchor >= rooms.totals.cut:
        rooms.totals.count("tool_errors")
    return None


def _own_tool(rooms: Rooms, event: Event, tool: Tool) -> None:
    """A new tool row belongs to its step."""
    _, step = rooms.step_of(tool.turn, tool.step, event)
    step.tools.append(tool.key)
    rooms.totals.count("tool_calls")


def _belongs(rooms: Rooms, event: Event, tool: Tool) -> None:
    """A call that was kept when its turn ended belongs to that number again: what is open of it
    closes, and it can be forgotten, when the number ends (§5.7)."""
    _, step = rooms.step_of(tool.turn, tool.step, event)
    if tool.key < step.key and tool.key not in step.tools:
        step.tools.append(tool.key)


def on_dispatch(rooms: Rooms, event: Event, body: Dispatch, out: Out) -> None:
    if not body.root_call_id:
        return rooms.note("dispatch_dropped")
    if body.sub_call_id is None:
        return rooms.note("malformed")
    tool = rooms.tools.latest(body.root_call_id)
    if tool is None:
        return rooms.tools.nested.wait(body.root_call_id, event.seq, body)
    boundary = rooms.boundary(tool.turn, tool.step, event)
    changed = rooms.tools.dispatch(event.seq, body, tool, boundary)
    if changed is None:
        return rooms.note("dispatch_dropped")
    if changed:
        rooms.tools.publish(tool, event.seq, out)
    if boundary is None:
        _belongs(rooms, event, tool)
    return None
