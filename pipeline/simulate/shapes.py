"""One writer per format shape (session-log.md §§1.4 to 1.6, 2, 6); each says only what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .packing import PACK_FROM, packed, packs, ranges, runs
from .writer import COMPACT_PLUGIN, PROMPT_PLUGIN, Chunk, Json, Result, Span, Writer

#: Plugin name -> v4 source kind, of those the model uses (session-log.md §6.4); the rest get the
#: prefix ``plugin:``.
_PRODUCERS = {
    COMPACT_PLUGIN: "compact-checkpoint",
    PROMPT_PLUGIN: "runtime-context",
    "hooks-codex": "hooks-codex",
    "tool-jobs": "tool-jobs",
}


class ChunkWriter(Writer):
    """v0 as first written: every stream chunk an event of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._cited: list[int] = []

    def stream(self, chunks: Sequence[Chunk]) -> None:
        for time, chunk in chunks:
            data = {"turn": self.turn, "step": self.step, "chunk": chunk}
            record = {"type": "assistant/chunk", "seq": self.seq, "time": time, "data": data}
            self._cited.append(self.log(record))

    def attempt(self) -> None:
        self._cited.clear()

    def lose_stream(self) -> None:
        self._cited.clear()

    def assistant(self, message: Json, extra: Json, over: Span | None = None) -> int:
        cited, self._cited = self._cited, []
        data = self.place() | self.assistant_body(message) | extra
        if over is None:
            return self.event("assistant/message", data, "append", cited)
        return self.event("assistant/message", data, over, [*cited, *over.nodes])

    def assistant_body(self, message: Json) -> Json:
        return {"message": message}


class PreReleaseWriter(ChunkWriter):
    """Before ids and wrappers: flat messages, ``compact/*``, ``steering/message``."""

    def message(self, message: Json) -> Json:
        return {"content": message["content"], "source": message["source"]}

    def steering(self, message: Json) -> int:
        return self.event("steering/message", self.message(message), "append")

    def context(self, message: Json) -> int:
        return self.event("context/message", self.message(message), "append")

    def assistant_body(self, message: Json) -> Json:
        source = message["source"]
        origin = {"provider": source["provider"], "model": source["model"]}
        return {"content": message["content"], "provenance": origin}

    def result_body(self, result: Result) -> Json:
        body = {"callId": result.call_id, "content": result.content}
        return body | {"isError": bool(result.is_error)}

    def turn_end(self, reason: Json) -> None:
        if reason["kind"] == "error":
            failure = reason["error"]
            reason = {"kind": "error", "step": self.step}
            if self.turn % 2:
                reason["failure"] = failure
            else:
                reason |= {"message": failure["message"], "code": failure["code"]}
        elif reason["kind"] == "aborted":
            reason = {"kind": "aborted"}
        super().turn_end(reason)

    def retry(self, data: Json) -> None:
        super().retry({key: value for key, value in data.items() if key != "retryId"})

    def retry_started(self, data: Json) -> None:
        """Not logged then."""

    def compaction(self, part: str, ids: Json, data: Json) -> int:
        return self.event(f"compact/{part}", self.compaction_ids(ids) | data)

    def compaction_ids(self, ids: Json) -> Json:
        return dict.fromkeys(ids.keys() - {"compactionId", "sourceCommandId"})


class PackedWriter(ChunkWriter):
    """v0 as released: runs of deltas in packed rows."""

    def stream(self, chunks: Sequence[Chunk]) -> None:
        for run in runs(chunks):
            if len(run) < PACK_FROM:
                super().stream(run)
                continue
            row = packed(run)
            data = self.place() | {key: row[key] for key in row if key not in ("type", "time0")}
            head = {"type": row["type"], "seq0": self.seq, "time0": row["time0"]}
            first = self.log(head | {"data": data}, len(run))
            self._cited += range(first, self.seq)


class RangesWriter(PackedWriter):
    """v1: packed rows, and source lists in ranges."""

    version = 1

    def sources(self, seqs: list[int]) -> list[Any]:
        return ranges(seqs)


class StreamWriter(Writer):
    """v2: the stream is embedded in the message or attempt that settled it."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        self._stream: list[Chunk] = []

    def sources(self, seqs: list[int]) -> list[Any]:
        return ranges(seqs)

    def _seeded(self) -> Json:
        return {"isSeeded": self.inherited is not None}

    def fork(self) -> None:
        self.inherited = self.seq
        self.event("session/end-seed", {"inherited": True})

    def stream(self, chunks: Sequence[Chunk]) -> None:
        self._stream += chunks

    def attempt(self) -> None:
        if self._stream:
            self.event("assistant/attempt", self.place() | {"stream": self._take()})

    def lose_stream(self) -> None:
        self._stream = []

    def _take(self) -> list[Json]:
        chunks, self._stream = self._stream, []
        records = []
        for run in runs(chunks):
            time, chunk = run[0]
            if packs(chunk):
                records.append(packed(run))
            else:
                records.append({"type": "chunk", "time": time, "chunk": chunk})
        return records

    def assistant(self, message: Json, extra: Json, over: Span | None = None) -> int:
        if over is not None:
            raise ValueError("an assistant message cannot be a replacement from v2 on")
        data = self.place() | {"message": message, **extra, "stream": self._take()}
        return self.event("assistant/message", data, "append")


class SystemWriter(StreamWriter):
    """v3: system messages, ``startSeq``/``endSeq``, ptc names."""

    version = 3
    replace_keys = ("startSeq", "endSeq")
    dispatch_type = "tool/ptc-dispatch"

    def __init__(self) -> None:
        super().__init__()
        self._head: int | None = None

    def prompt(self, text: str) -> None:
        if self._head is not None and text == self._prompt:
            return
        super().prompt(text)
        data = self._system(f"system-{self.seq}", text)
        if self._head is None:
            self._head = self.event("system/message", data, "append")
        else:
            self._head = self.event("system/message", data, Span([self._head]), [self._head])

    def system(self, message_id: str, text: str) -> int:
        return self.event("system/message", self._system(message_id, text), "append")

    def _system(self, message_id: str, text: str) -> Json:
        content = [{"type": "text", "text": text}] if text else []
        message = {"id": message_id, "role": "system", "content": content}
        return self.place() | {"message": message | {"source": self.prompt_source()}}

    def prompt_source(self) -> Json:
        return {"kind": "plugin", "plugin": PROMPT_PLUGIN}

    def request_header(self, config: Json, tools: list[Json], reason: str) -> int:
        header = {"config": config, "tools": tools}
        return self.event("request/header", {"header": header, "reason": reason})

    def dispatch(self, call: Json, settled: Json | None = None) -> None:
        names = ("parentCallId", "subCallId")
        renamed = {key: call[key].replace(":code:", ":ptc:") for key in names}
        super().dispatch(call | renamed, settled)


class DirectWriter(SystemWriter):
    """v4: direct tool results, producers' own source kinds, developer messages."""

    version = 4

    def message(self, message: Json) -> Json:
        source = message["source"]
        if source["kind"] != "plugin":
            return message
        name = source["plugin"]
        kind = _PRODUCERS.get(name, f"plugin:{name}")
        rest = {key: value for key, value in source.items() if key not in ("kind", "plugin")}
        return message | {"source": {"kind": kind, **rest}}

    def prompt_source(self) -> Json:
        return {"kind": "system-prompt"}

    def result_body(self, result: Result) -> Json:
        message: Json = {"id": result.message_id, "role": "tool"}
        message["source"] = {"kind": "tool", "callId": result.call_id}
        message |= {"toolCallId": result.call_id, "content": result.content}
        if result.is_error is not None:
            message["isError"] = result.is_error
        return {"message": message}

    def developer(self, message: Json, header: int | None) -> int:
        data = self.place() | {"message": message}
        if header is not None:
            data["headerSeq"] = header
        return self.event("developer/message", data, "append")

    def unknown(self, kind: str, data: Json) -> None:
        super().unknown(f"plugin:{kind}", data)


WRITERS: dict[str, type[Writer]] = {
    "pre": PreReleaseWriter,
    "v0-chunks": ChunkWriter,
    "v0": PackedWriter,
    "v1": RangesWriter,
    "v2": StreamWriter,
    "v3": SystemWriter,
    "v4": DirectWriter,
}
