"""The model's stream chunks: blocks by index, first token, embedded streams (§5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.golden.model_log import blank, integer, text

Json = Any


def visible(block: Json) -> bool:
    """Non-blank text or reasoning, or any block other than a tool call."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in ("text", "reasoning"):
        return not blank(text(block.get("text")) or "")
    return kind != "tool-call"


def records(stream: Json) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The chunks of an embedded stream, each with its time."""
    for row in stream if isinstance(stream, list) else []:
        kind = row.get("type")
        if kind == "chunk":
            yield integer(row.get("time")), row.get("chunk") or {}
            continue
        time = integer(row.get("time0")) or 0
        pieces = row.get("args") if kind == "tool-call-chunks" else row.get("texts")
        for index, piece in enumerate(pieces or []):
            time += row["dt"][index - 1] if index else 0
            chunk = {"type": kind.replace("-chunks", "-delta"), "index": row.get("index")}
            if kind == "tool-call-chunks":
                chunk |= {"id": row.get("id"), "argumentsDelta": piece}
                chunk |= {"name": row["name"]} if "name" in row else {}
            else:
                chunk["text"] = piece
            yield time, chunk


def token(chunk: dict[str, Any]) -> bool:
    """Whether a chunk is a first token."""
    if chunk.get("type") in ("text-delta", "reasoning-delta"):
        return bool(chunk.get("text"))
    is_call = chunk.get("type") == "tool-call-delta"
    return is_call and (bool(chunk.get("argumentsDelta")) or isinstance(chunk.get("name"), str))


def stream_token(stream: Json) -> int | None:
    return next((time for time, chunk in records(stream) if token(chunk)), None)


def stream_usage(stream: Json) -> Json:
    found = [c.get("usage") for _, c in records(stream) if c.get("type") == "usage"]
    return found[-1] if found else None


def put(blocks: dict[int, dict[str, Any]], chunk: dict[str, Any]) -> None:
    """Apply a chunk to the blocks by index; a delta of another kind begins the block afresh."""
    kind, index = chunk.get("type"), chunk.get("index", 0)
    held = blocks.get(index, {})
    if kind == "block-start":
        blocks[index] = empty(chunk.get("blockType"))
    elif kind in ("text-delta", "reasoning-delta"):
        own = str(kind).removesuffix("-delta")
        block = held if held.get("type") == own else empty(own)
        blocks[index] = {**block, "text": block.get("text", "") + chunk.get("text", "")}
    elif kind == "tool-call-delta":
        block = held if held.get("type") == "tool-call" else empty("tool-call")
        name = chunk["name"] if isinstance(chunk.get("name"), str) else block.get("name")
        told = (block.get("arguments") or "") + (chunk.get("argumentsDelta") or "")
        given = block.get("id") or chunk.get("id")
        blocks[index] = {**block, "id": given, "name": name, "arguments": told}
    elif kind == "block-end":
        blocks[index] = chunk.get("block") or {}


def empty(kind: str | None) -> dict[str, Any]:
    if kind == "tool-call":
        return {"type": kind, "id": None, "name": None, "arguments": ""}
    return {"type": kind, "text": ""} if kind in ("text", "reasoning") else {"type": kind}
