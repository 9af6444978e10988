"""What the harness would say about one row of a log (session-log.md §1.2, §1.3, §1.4, §1.8).

The fold is more tolerant than the harness; a reader must still know where the harness sees a
*defect* (a row at which it would cut a torn tail off, or call the log corrupt) and what makes it
refuse a log as a whole. Nothing here changes a line, and the fold's own rules are elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

MAX_SAFE = 2**53 - 1
NEWEST_VERSION = 4

_PACKED = {"text-chunks": "texts", "reasoning-chunks": "texts", "tool-call-chunks": "args"}
_ENVELOPE_KEYS = {"type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"}
_RETIRED = {"tool/code-dispatch", "tool/code-dispatch/start"}
_SEED = {"session/end-seed"}
_WATCHED = {*_SEED, "compaction/start", "compaction/end", "request/header", *_RETIRED}


class _Envelope(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A row as it nearly always is; anything else takes the exact way."""

    type: Annotated[str, Meta(min_length=1)]
    seq: Annotated[int, Meta(ge=0, le=MAX_SAFE)]
    time: Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE)]
    data: Raw
    surface_op: Raw | UnsetType = UNSET
    source_event_seqs: Raw | UnsetType = UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class Row(Struct, frozen=True, gc=False):
    """One whole line: its first ``seq`` (None without one) and the number of events in it; the
    ``defect`` (a code) it shows after the rows before it, and whether it is a ``turn/end``."""

    seq: int | None = None
    count: int = 1
    closes: bool = False
    defect: str | None = None
    message: str = ""


def exact_json(raw: bytes) -> Any:
    """JSON as the harness's reader takes it: bad UTF-8 replaced, the last of equal keys counts.

    Raises ValueError.
    """
    try:
        return json.loads(
            raw.decode("utf-8", "replace"), parse_constant=_refuse, parse_int=_integer
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 40 else float(digits)


def safe_integer(value: object) -> int | None:
    """The integer that a JSON number is by value (``5.0`` is 5), None if it is no safe one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if abs(value) <= MAX_SAFE else None


def _seq(value: object) -> int | None:
    number = safe_integer(value)
    return number if number is not None and number >= 0 else None


class RowCheck:
    """Checks the rows of one log in order. ``report(code, message)`` hears once of each thing for
    which the harness refuses the whole log although its rows decode."""

    def __init__(self, header: dict[str, Any] | None, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._header = header
        self.version = (safe_integer(header.get("version")) or 0) if header else 0
        self.next_seq: int | None = 0
        self._watched = _WATCHED if self.version >= 4 else _SEED
        self._inherited = False
        self._compacting = False

    def plain(self, raw: bytes) -> int | None:
        """The seq of the row that nearly every line is: one event in its place, nothing to say.
        None: ask :meth:`row`, which then has not seen it yet."""
        try:
            envelope = _decode_envelope(raw)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
        if envelope.seq != self.next_seq or envelope.type in self._watched:
            return None
        sources = envelope.source_event_seqs
        if sources is not UNSET and b"[" in bytes(sources)[1:]:
            return None
        self.next_seq = envelope.seq + 1
        return envelope.seq

    def row(self, raw: bytes) -> Row:
        """What any row is."""
        try:
            value = exact_json(raw)
        except ValueError as error:
            return Row(defect="not-json", message=f"not JSON: {error}")
        if not isinstance(value, dict):
            return Row(defect="not-object", message="not a JSON object")
        kind = value.get("type")
        closes = kind == "turn/end"
        if not value.keys() & {"seq", "seq0"} and kind != "session":
            return Row(closes=closes, defect="seq-missing", message="no seq")
        if isinstance(kind, str) and kind in _PACKED:
            seq, count, fault = _packed(value, kind, self.version)
            code = "packed-row"
        else:
            seq, count = _seq(value.get("seq")), 1
            code, fault = self._event(value, seq)
        if fault is None and self.next_seq is not None and seq != self.next_seq:
            code = "seq-gap"
            fault = f"expected seq {self.next_seq}, got {value.get('seq', value.get('seq0'))!r}"
        if seq is not None:
            self.next_seq = seq + count
        if isinstance(kind, str) and kind in self._watched:
            self._watch(kind, value.get("data"))
        if fault is None:
            return Row(seq, count, closes)
        return Row(seq, count, closes, code, fault)

    def skip(self) -> None:
        """A line that nobody saw: the next row may have any seq."""
        self.next_seq = None

    def finish(self) -> None:
        """What only the whole log shows: inherited counts that are not there (§1.2)."""
        if self._header is None:
            return
        seeded = safe_integer(self._header.get("seedLength"))
        if self.version < 2:
            if seeded is not None and self.next_seq is not None and seeded > self.next_seq:
                self._report("seed-length", f"seedLength {seeded} lies beyond the log's end")
        elif (self._header.get("isSeeded") is True) != self._inherited:
            what = "no inherited end-seed" if not self._inherited else "an inherited end-seed"
            self._report("seed-marker", f"isSeeded contradicts the rows: there is {what}")

    def _event(self, value: dict[str, Any], seq: int | None) -> tuple[str, str | None]:
        sources = value.get("sourceEventSeqs")
        if isinstance(sources, list) and not _ranges_hold(sources, seq or 0):
            return "sources-range", "sourceEventSeqs has a bad range"
        fault = _envelope_fault(value)
        if fault is not None and self.version < 3:
            self._report("envelope", f"seq {value.get('seq')!r}: {fault}")
            fault = None
        return "envelope", fault

    def _watch(self, kind: str, data: Any) -> None:
        if kind == "session/end-seed":
            self._compacting = False
            if isinstance(data, dict) and data.get("inherited") is True:
                self._inherited = True
        elif kind == "compaction/start":
            if self._compacting:
                self._report("compaction-overlap", "a compaction starts while another runs")
            self._compacting = True
        elif kind == "compaction/end":
            self._compacting = False
        elif kind != "request/header":
            self._report("retired-type", f"{kind} is retired since version 4")
        elif _has_system(data):
            self._report("retired-type", "request/header.system is retired since version 4")


def _has_system(data: Any) -> bool:
    header = data.get("header") if isinstance(data, dict) else None
    return isinstance(header, dict) and "system" in header


def _envelope_fault(value: dict[str, Any]) -> str | None:
    kind = value.get("type")
    unknown = value.keys() - _ENVELOPE_KEYS
    if not isinstance(kind, str) or not kind:
        return "type is no string"
    if unknown:
        return f"unknown key {min(unknown)!r}"
    if "data" not in value:
        return "data is missing"
    if safe_integer(value.get("time")) is None:
        return "time is no safe integer"
    if value.get("ignorable", True) is not True:
        return "ignorable is not true"
    return None


def _ranges_hold(sources: list[Any], seq: int) -> bool:
    """§1.4: a list with a range is strictly increasing as a whole and not longer than the seq."""
    if not any(isinstance(element, list) for element in sources):
        return True
    last, members = -1, 0
    for element in sources:
        pair = element if isinstance(element, list) else [element, element]
        first, end = (_seq(pair[0]), _seq(pair[1])) if len(pair) == 2 else (None, None)
        if first is None or end is None or first <= last or end < first:
            return False
        members += end - first + 1
        last = end
    return members <= seq


def _packed(value: dict[str, Any], kind: str, version: int) -> tuple[int | None, int, str | None]:
    """(seq0, members, fault) of a packed chunk row (§1.5)."""
    seq = _seq(value.get("seq0"))
    data = value.get("data")
    if version >= 2:
        return seq, 1, f"a packed row in version {version}"
    if value.keys() != {"type", "seq0", "time0", "data"} or not isinstance(data, dict):
        return seq, 1, "a packed row with other keys"
    members = data.get(_PACKED[kind])
    steps = data.get("dt")
    keys = {"turn", "step", "index", "dt", _PACKED[kind]}
    keys |= {"id"} if kind == "tool-call-chunks" else set()
    if data.keys() - {"name"} != keys or ("name" in data and kind != "tool-call-chunks"):
        return seq, 1, "a packed row whose data has other keys"
    if not isinstance(members, list) or not isinstance(steps, list) or not members:
        return seq, 1, "a packed row without members"
    texts = [*members, *(data[key] for key in ("id", "name") if key in data)]
    numbers = [value["time0"], data["turn"], data["step"], data["index"], *steps]
    if len(steps) != len(members) - 1 or not all(isinstance(text, str) for text in texts):
        return seq, 1, "a packed row whose members do not fit"
    if seq is None or any(safe_integer(number) is None for number in numbers):
        return seq, 1, "a packed row with a number that is no safe integer"
    return seq, len(members), None


# --- the header -----------------------------------------------------------------------------------

_REQUIRED = {"type", "version", "id", "createdAt", "delegationDepth"}
_OPTIONAL = {"cwd", "parentSession", "origin", "agentPreset"}
_STRINGS = ("cwd", "parentSession", "agentPreset")


def header_faults(header: dict[str, Any]) -> list[str]:
    """Why a release refuses this header, empty if none does (§1.2); the version comes first."""
    version = safe_integer(header.get("version"))
    if version is None or version < 0:
        return [f"version {header.get('version')!r} is no version number"]
    if version > NEWEST_VERSION:
        return [f"version {version} is newer than {NEWEST_VERSION}"]
    seeded = {"isSeeded"} if version >= 2 else set()
    allowed = _REQUIRED | _OPTIONAL | (seeded or {"seedLength"})
    faults = [f"{key} is missing" for key in sorted((_REQUIRED | seeded) - header.keys())]
    faults += [f"unknown key {key!r}" for key in sorted(header.keys() - allowed)]
    if not isinstance(header.get("id"), str) or not header["id"]:
        faults.append("id is no string")
    for key in ("createdAt", "delegationDepth", "seedLength"):
        if key in header and _seq(header[key]) is None:
            faults.append(f"{key} is no count")
    not_text = [key for key in _STRINGS if not isinstance(header.get(key, ""), str)]
    faults += [f"{key} is no string" for key in not_text]
    cwd = header.get("cwd")
    if isinstance(cwd, str) and not cwd.startswith("/"):
        faults.append(f"cwd {cwd!r} is not absolute")
    if header.get("origin", "subagent") != "subagent":
        faults.append("origin is not 'subagent'")
    if not isinstance(header.get("isSeeded", False), bool):
        faults.append("isSeeded is no boolean")
    return faults
