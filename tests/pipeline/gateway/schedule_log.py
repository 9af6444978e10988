"""A log for fault schedules: sessions as topics tell them, and what they amount to in the end."""

from __future__ import annotations

import copy
import json
from typing import Any

from msgspec import Raw

from pipeline.gateway.changes import (
    Change,
    OverviewChanged,
    Place,
    RowChanged,
    SurfaceChanged,
    TextAppended,
)
from pipeline.gateway.keyed import Json, anchor

SESSIONS = ("a", "b", "c")
PARTITIONS = {"a": 0, "b": 0, "c": 1}
ROLES = ("transcript", "surface", "partials", "overview")
PLACES: tuple[Place, ...] = tuple((role, p) for role in ROLES for p in (0, 1))
TEXTS = ("x", "\U0001f600y", "", "zz", "\u4e16")


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


class Truth:
    """One session as it stands for whoever has read all of it."""

    def __init__(self, session: str, epoch: int = 0) -> None:
        self.session, self.epoch, self.seq = session, epoch, -1
        self.rows: dict[str, Json] = {}
        self.overview: Json = {}
        self.nodes: list[Json] = []
        self.generation = 0
        self.surface_seq = -1
        self.open: str | None = None

    def shown(self) -> list[Json]:
        return sorted((r for r in self.rows.values() if not r["deleted"]), key=anchor)


class Log:
    """The topics. Every method of a writer is one transaction of theirs."""

    def __init__(self, name: str = "log-0") -> None:
        self.name = name
        self.topics: dict[Place, list[Change]] = {place: [] for place in PLACES}
        self.truth = {session: Truth(session) for session in SESSIONS}
        for session in SESSIONS:
            self._overview(self.truth[session])

    def ends(self) -> dict[Place, int]:
        return {place: len(records) for place, records in self.topics.items()}

    def write(self, session: str, operation: int, amount: int) -> None:
        truth = self.truth[session]
        operations = (
            *(self._open, self._grow, self._grow, self._grow, self._republish, self._settle),
            *(
                self._tool,
                self._result,
                self._result,
                self._remove,
                self._surface,
                self._replace,
                self._fault,
                self._raise,
            ),
        )
        operations[operation % len(operations)](truth, amount)
        self._overview(self.truth[session])

    # --- one session's events

    def _open(self, truth: Truth, _: int) -> None:
        seq = self._next(truth)
        truth.open = f"assistant:{seq}"
        self._row(truth, truth.open, [seq, 0], [""])

    def _grow(self, truth: Truth, amount: int) -> None:
        if truth.open is None:
            self._open(truth, amount)
        for _ in range(amount % 3 + 1):
            assert truth.open is not None
            row = truth.rows[truth.open]
            seq = self._next(truth)
            blocks = copy.deepcopy(row["data"]["blocks"])
            block = blocks[amount % len(blocks)]
            text = TEXTS[(amount + seq) % len(TEXTS)] or "-"
            partition, offset = self._at(truth, "partials")
            change = TextAppended(
                session=truth.session,
                epoch=truth.epoch,
                key=truth.open,
                rev=seq,
                block=amount % len(blocks),
                block_type="text",
                at=len(block["text"]),
                text=text,
                first_seq=seq,
                time=None,
                partition=partition,
                offset=offset,
            )
            self.topics["partials", change.partition].append(change)
            block["text"] += text
            truth.rows[truth.open] = {**row, "rev": seq, "seq": seq, "data": {"blocks": blocks}}

    def _republish(self, truth: Truth, _: int) -> None:
        """A block more; with none open, the next step of another row."""
        if truth.open is None:
            return
        row = truth.rows[truth.open]
        self._next(truth)
        texts = [block["text"] for block in row["data"]["blocks"]]
        self._row(truth, truth.open, [row["anchor_seq"], 0], [*texts, ""])

    def _settle(self, truth: Truth, amount: int) -> None:
        if truth.open is None:
            return
        seq = self._next(truth)
        self._row(truth, truth.open, [seq, 0], [TEXTS[amount % len(TEXTS)] + "settled"])
        truth.open = None

    def _tool(self, truth: Truth, _: int) -> None:
        seq = self._next(truth)
        self._row(truth, f"tool:{seq}", [seq, 0], ["called"])

    def _result(self, truth: Truth, amount: int) -> None:
        """Of any row, however old, deleted or not: it may come back under its key."""
        keys = [key for key in truth.rows if key != truth.open]
        if keys:
            row = truth.rows[keys[amount % len(keys)]]
            seq = self._next(truth)
            moved = [seq, 0] if amount % 4 == 3 else [row["anchor_seq"], row["anchor_rank"]]
            self._row(truth, row["key"], moved, [f"result {seq}"])

    def _remove(self, truth: Truth, amount: int) -> None:
        keys = [key for key in truth.rows if key != truth.open or amount % 2]
        if keys:
            key = keys[amount % len(keys)]
            row = truth.rows[key]
            self._next(truth)
            self._row(truth, key, [row["anchor_seq"], 0], None)
            truth.open = None if truth.open == key else truth.open

    def _fault(self, truth: Truth, amount: int) -> None:
        """The overview changes, but not its seq."""
        truth.overview = {**truth.overview, "faults": truth.overview.get("faults", 0) + amount + 1}

    def _surface(self, truth: Truth, amount: int) -> None:
        """A node more, or images of one are offloaded."""
        whole = [node for node in truth.nodes if not _images(node)[1].get("offloaded")]
        if whole and amount % 3 == 0:
            self._offload(truth, whole[amount % len(whole)])
        else:
            self._append(truth)

    def _append(self, truth: Truth) -> None:
        seq = self._next(truth)
        self._step(truth, {"op": "append", "shadowed": [], "position": len(truth.nodes)}, seq)

    def _offload(self, truth: Truth, node: Json) -> None:
        """The second of its images, which a tool's result holds."""
        seq = self._next(truth)
        at = truth.nodes.index(node)
        truth.nodes[at] = amended = copy.deepcopy(node)
        _images(amended)[1]["offloaded"] = True
        truth.surface_seq = seq
        targets = [{"seq": node["seq"], "images": [1]}]
        body = {"op": "amend", "seq": seq, "type": "image/offload", "message": None}
        self._publish(truth, {**body, "shadowed": [], "position": -1, "targets": targets})

    def _replace(self, truth: Truth, amount: int) -> None:
        if len(truth.nodes) < 2:
            self._append(truth)
        seq, at = self._next(truth), amount % len(truth.nodes)
        gone = [node["seq"] for node in truth.nodes[at : at + 2]]
        truth.generation += 1
        self._step(truth, {"op": "replace", "shadowed": gone, "position": at}, seq)

    def _raise(self, truth: Truth, amount: int) -> None:
        """The session's log is begun anew, once in a while."""
        if amount % 3 == 0:
            new = self.truth[truth.session] = Truth(truth.session, truth.epoch + 1)
            at = self._at(new, "surface")
            body = raw({"op": "reset", "seq": -1, "type": None, "message": None})
            self.topics["surface", at[0]].append(
                SurfaceChanged(new.session, new.epoch, -1, "reset", body, *at)
            )
            self._overview(new)

    # --- records

    def _next(self, truth: Truth) -> int:
        truth.seq += 1
        return truth.seq

    def _at(self, truth: Truth, role: str) -> tuple[int, int]:
        partition = PARTITIONS[truth.session]
        return partition, len(self.topics[role, partition])

    def _row(self, truth: Truth, key: str, at: list[int], texts: list[str] | None) -> None:
        row: Json = {
            "session": truth.session,
            "epoch": truth.epoch,
            "seq": truth.seq,
            "key": key,
            "kind": key.partition(":")[0],
            "anchor_seq": at[0],
            "anchor_rank": at[1],
            "rev": truth.seq,
            "deleted": texts is None,
            "data": texts and {"blocks": [{"type": "text", "text": text} for text in texts]},
        }
        truth.rows[key] = row
        change = RowChanged(
            *(truth.session, truth.epoch, key, truth.seq, row["kind"], at[0], at[1]),
            *("transcript", texts is None, raw(row), *self._at(truth, "transcript")),
        )
        self.topics["transcript", change.partition].append(change)

    def _step(self, truth: Truth, change: Json, seq: int) -> None:
        node = {"seq": seq, "type": "user/message", "message": _message(seq)}
        leaving = change["shadowed"]
        truth.nodes = [kept for kept in truth.nodes if kept["seq"] not in leaving]
        truth.nodes.insert(change["position"], node)
        truth.surface_seq = seq
        self._publish(truth, {**change, **node, "targets": []})

    def _publish(self, truth: Truth, change: Json) -> None:
        at, seq = self._at(truth, "surface"), truth.surface_seq
        body = raw({**change, "generation": truth.generation})
        self.topics["surface", at[0]].append(
            SurfaceChanged(truth.session, truth.epoch, seq, change["op"], body, *at)
        )

    def _overview(self, truth: Truth) -> None:
        truth.overview = {
            **truth.overview,
            "session": truth.session,
            "epoch": truth.epoch,
            "seq": truth.seq,
        }
        at = self._at(truth, "overview")
        self.topics["overview", at[0]].append(
            OverviewChanged(
                truth.session, truth.epoch, truth.seq, "running", raw(truth.overview), *at
            )
        )


def _message(seq: int) -> Json:
    """With two images; the second one is within a result."""
    result = {"type": "tool_result", "content": [{"type": "text", "text": "t"}, {"type": "image"}]}
    return {"id": f"m{seq}", "content": [{"type": "image"}, "odd", result]}


def _images(node: Json) -> tuple[Json, Json]:
    content = node["message"]["content"]
    return content[0], content[2]["content"][1]
