"""What the readers say in a session's overview, in the order of its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operators.changes import (
    BilledData,
    CacheBreak,
    CacheLoss,
    GoalData,
    InstructionData,
    PairingData,
    PermissionsData,
    PlanData,
    SubagentData,
    SubagentTimingData,
    UsageData,
)
from operators.surface import Surface
from operators.totals import bounded, usage_data

from .goals import Goals
from .injected import Injected
from .losses import Break, Losses
from .pairing import Pairing
from .permissions import Permissions
from .plans import Plans
from .projections import Projections
from .rooms import BILLING, LOSSES, SMALL, TOKENS, Readers
from .subagents import SubagentIdentity, SubagentTiming
from .titles import ListMetadata, Titles
from .todos import Todos
from .usage import Billing, TokenUsage

FIRST = "turns"  #: the first of the overview's fields that is said here


def published(readers: Readers, surface: Surface, last_time: int | None) -> tuple[Any, ...]:
    """The values from ``turns`` on; ``last_time``, that of the session's last event, is how far an
    open turn came. What a part says is made anew only after an event that entered it."""
    times, context, header = readers.statistics.times, readers.context, readers.header
    systems = readers.systems
    in_header = 0 if header is None or systems.any else header.system
    small = _kept(readers, SMALL, _state)
    if small[_TIMING] is not None:
        timing: SubagentTiming = readers.small["timing"]
        if timing.state.is_open:
            small = (*small[:_TIMING], _timing(timing, last_time), *small[_TIMING + 1 :])
    return (
        *(times.turns, times.steps, times.ttft_ms, times.ttft_steps),
        *(times.decode_ms, times.decode_tokens),
        _kept(readers, TOKENS, _reference_usage),
        _kept(readers, BILLING, _billed),
        systems.last or in_header,
        0 if header is None else header.tools,
        surface.tokens - systems.last,
        surface.tokens,
        bounded(context.total - surface.tokens),
        context.pressure,
        context.projected,
        *_kept(readers, LOSSES, _losses),
        *small,
    )


def _kept(readers: Readers, number: int, make: Callable[[Any], Any]) -> Any:
    told = readers.told[number]
    return readers.keep(readers.told, number, make(readers.peek(number))) if told is None else told


def _reference_usage(tokens: TokenUsage) -> UsageData:
    return usage_data(tokens.total)


def _billed(billing: Billing) -> tuple[BilledData, ...]:
    return tuple(
        BilledData(
            route.provider,
            route.model,
            usage_data(row.usage),
            usage_data(row.compaction),
            row.since,
            row.through,
        )
        for route, row in billing.table()
    )


def _losses(losses: Losses) -> tuple[tuple[CacheLoss, ...], CacheBreak | None]:
    sums = (CacheLoss(cause, row.breaks, row.tokens) for cause, row in sorted(losses.sums.items()))
    return tuple(sums), cache_break(losses.last)


def cache_break(found: Break | None) -> CacheBreak | None:
    if found is None:
        return None
    return CacheBreak(found.seq, found.cause, found.prefix, found.prefix_tokens, found.invalidated)


def _state(small: Projections) -> tuple[Any, ...]:
    """What the small readers say, one after the other."""
    told, rooms = small.told, small.rooms
    for number, make in enumerate(_MAKERS):
        if told[number] is None:
            room = rooms[number]
            silent = room is None or room.saved() is None
            small.keep(told, number, _SILENT[number] if silent else make(room))
    return tuple([value for values in told for value in values])


def _title(room: Titles) -> tuple[Any, ...]:
    return (room.value().derived,)


def _listing(room: ListMetadata) -> tuple[Any, ...]:
    return room.state.blank, room.state.last_prompt_at


def _goal(room: Goals) -> tuple[Any, ...]:
    goal = room.value()
    if goal is None:
        return (None,)
    code, message = goal.blocked or (None, None)
    told = GoalData(
        *(goal.id, goal.revision, goal.objective, goal.phase, goal.max_rounds, code, message),
        *(goal.rounds_started, goal.created_at, goal.updated_at),
    )
    return (told,)


def _todos(room: Todos) -> tuple[Any, ...]:
    return (None if room.state is room.EMPTY else room.state.todos,)


def _plan(room: Plans) -> tuple[Any, ...]:
    return (PlanData(room.state.active, room.state.pending),)


def _permissions(room: Permissions) -> tuple[Any, ...]:
    knobs = room.state
    return (PermissionsData(knobs.preset, knobs.sandbox, knobs.approval),)


def _subagent(room: SubagentIdentity) -> tuple[Any, ...]:
    value = room.value()
    return (value and SubagentData(value.mode, value.label, value.seq, value.own),)


def _settled(room: SubagentTiming) -> tuple[Any, ...]:
    return (_timing(room, None),)


def _pairing(room: Pairing) -> tuple[Any, ...]:
    pairs = room.state
    return (PairingData(pairs.waiting, pairs.orphan_calls, pairs.orphan_results, pairs.corrupt),)


def _injected(room: Injected) -> tuple[Any, ...]:
    instructions = tuple(
        InstructionData(each.action, each.scope, each.path, each.digest)
        for each in room.instructions.values()
    )
    return len(room.living), room.counts.shadowed, room.counts.runtime, instructions


def _timing(timing: SubagentTiming, last_time: int | None) -> SubagentTimingData | None:
    """None for a session that no descriptor makes a subagent."""
    if not timing.state.described:
        return None
    value = timing.value(last_time)
    active = value.active
    since, through = (None, None) if active is None else (active.since, active.through)
    return SubagentTimingData(value.settled_ms, since, through, value.last_turn_completed)


#: What each small reader says, in their order, and what it says while nothing happened to it.
_MAKERS: tuple[Callable[[Any], tuple[Any, ...]], ...] = (
    *(_title, _listing, _goal, _todos, _plan, _permissions, _settled, _subagent),
    *(_pairing, _injected),
)
_SILENT: tuple[tuple[Any, ...], ...] = (
    *((None,), (True, None), (None,), (None,), (None,), (None,), (None,), (None,), (None,)),
    (0, 0, None, ()),
)
_TIMING = 7  #: place of ``subagent_timing`` among their values
