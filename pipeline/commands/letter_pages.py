"""Dead letters and parked sessions as ``deadletter`` writes them."""

from __future__ import annotations

from msgspec import structs

from pipeline import parked, replay
from pipeline.deadletter import Listed
from pipeline.envelope import Place, first_place
from pipeline.parked import Situation
from pipeline.plain import visible, visible_line
from pipeline.ports import Reader
from pipeline.waiting import as_received


def letter_line(listed: Listed) -> str:
    """Reason, where it came from, whose it is, and the reason in words."""
    letter = listed.letter
    if letter is None:
        record = listed.record
        at = Place(record.topic, record.partition, record.offset)
        return f"{visible_line(str(at))}: not a dead letter of ours"
    at = Place(letter.topic, letter.partition, letter.offset)
    whose = f"{letter.session or '-'} seq {'-' if letter.fault_seq is None else letter.fault_seq}"
    return visible_line(f"{letter.reason:<24} {at!s:<28} {whose:<28} {letter.message}")


def standing_of(reader: Reader, known: Situation | None) -> dict[str, object]:
    """Where the session stands, and what a replay would do as things are, and with --skip."""
    state = known.state if known else None
    standing: dict[str, object] = {"session": known.session if known else None, "parked": None}
    if known is None or state is None:
        return standing
    standing["next_seq"] = state.next_seq
    if state.parked is not None:
        order = known.in_order()
        standing["parked"] = _parked(known)
        standing["waiting"] = len(order)
        for name, decision in (("replay", replay.Decision()), ("skip", replay.Decision(skip=True))):
            records = replay.planned(known, decision, reader, order)
            standing[name] = parked.foresee(state, known.at, records)
    return standing


def _parked(known: Situation) -> dict[str, object] | None:
    state = known.state
    if state is None or state.parked is None:
        return None
    held, at = state.parked, known.at
    return {
        "seq": state.expected,
        "reason": held.reason,
        "offender": None if held.at is None else str(structs.replace(at, offset=held.at)),
        "offender_seq": held.seq,
        "since": str(structs.replace(at, offset=held.since)),
    }


def letter_page(listed: Listed) -> str:
    """Everything a letter holds, for a person."""
    letter = listed.letter
    if letter is None:
        return letter_line(listed)
    at = Place(letter.topic, letter.partition, letter.offset)
    first = first_place(as_received(letter))
    lines = [
        f"reason     {letter.reason}",
        f"message    {letter.message}",
        f"place      {at}" + ("" if first.offset == at.offset else f" (replayed, first {first})"),
        f"session    {letter.session or '-'}, seq {_or_dash(letter.fault_seq)}",
        f"timestamp  {letter.timestamp}",
        f"key        {_text(letter.key)}",
        *(f"header     {header.key}: {_text(header.value)}" for header in letter.headers),
    ]
    size = "none" if letter.value is None else f"{len(letter.value)} bytes"
    return "\n".join(
        [*map(visible_line, lines), f"value      {size}", visible(_text(letter.value))]
    )


def standing_page(standing: dict[str, object]) -> str:
    """Where a session stands, for a person."""
    held, session = standing["parked"], standing["session"]
    if session is None:
        return "on replay  nothing: it belongs to no session"
    if not isinstance(held, dict):
        return visible_line(f"on replay  nothing: session {session} is not parked")
    why = held["reason"] or "nothing stands in the way"
    lines = [
        f"session    {session}: parked at seq {held['seq']}: {why}",
        f"since      {held['since']}, {standing['waiting']} records wait",
        f"on replay  {_told(standing['replay'])}",
        f"with skip  {_told(standing['skip'])}",
    ]
    return "\n".join(map(visible_line, lines))


def _told(seen: object) -> str:
    assert isinstance(seen, parked.Foreseen)
    if seen.stop is None:
        return f"{seen.count} records are sent, and the session is folded on to seq {seen.next_seq}"
    seq = _or_dash(seen.stop.seq)
    return f"parks again at seq {seq}: {seen.stop.reason}: {seen.stop.message}"


def _or_dash(number_: int | None) -> str:
    return "-" if number_ is None else str(number_)


def _text(value: bytes | None) -> str:
    return "-" if value is None else value.decode("utf-8", "backslashreplace")


def outcome_line(outcome: replay.Outcome) -> str:
    if outcome.parked is not None:
        return f"{outcome.sent} records sent again; {outcome.message}"
    if not outcome.rounds:
        return "not parked, nothing to replay"
    return f"{outcome.sent} records sent again, folded on to seq {outcome.next_seq}"
