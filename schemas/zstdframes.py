"""Zstandard log files, frame by frame (session-log.md §1.1, §1.3).

A compressed log is a plain concatenation of frames. This module finds the frames by their structure
(so a frame that was cut off is told from one that is damaged), checks each complete one before
anything of it is handed on, and decodes block by block: at most one block (128 KiB) and one held
frame (``HOLD`` bytes) are in memory. A frame larger than ``HOLD`` is decoded twice instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import zstandard
from msgspec import Struct

MAGIC = b"\x28\xb5\x2f\xfd"
HOLD = 1 << 20

_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_RESERVED_BLOCK = 3
_RLE_BLOCK = 1


class CorruptFrameError(Exception):
    """What stands at ``offset`` of the file is no readable frame.

    ``code`` is ``frame-magic`` (other bytes where a frame should begin, skippable frames too) or
    ``frame-corrupt`` (its header, a block or its checksum is wrong).
    """

    def __init__(self, code: str, message: str, offset: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.offset = offset


class Frame(Struct, frozen=True):
    """One frame: ``offset`` … ``end`` in bytes of the file. A torn one (the file ends inside it)
    ends after its last complete block; ``blocks`` is where its first block header stands."""

    index: int
    offset: int
    blocks: int
    end: int
    torn: bool


def frames(file: BinaryIO, offset: int = 0) -> Iterator[Frame]:
    """The frames of a seekable file, from its start (or where a later one begins) to the size it
    has now.

    One to three bytes at the end are a torn frame. Raises :class:`CorruptFrameError`.
    """
    size = file.seek(0, 2)
    index = 0
    while offset < size:
        frame = _walk(file, offset, size, index)
        yield frame
        if frame.torn:
            return
        offset = frame.end
        index += 1


def content(file: BinaryIO, frame: Frame) -> Iterator[bytes]:
    """The decoded bytes of a frame in pieces, of a torn one as far as its complete blocks go.

    A complete frame is verified to its checksum before the first piece. Raises
    :class:`CorruptFrameError`.
    """
    if frame.torn:
        yield from _decode(file, frame)
        return
    held: list[bytes] = []
    total = 0
    for piece in _decode(file, frame):
        total += len(piece)
        if total <= HOLD:
            held.append(piece)
        else:
            held.clear()
    yield from held if total <= HOLD else _decode(file, frame)


def _walk(file: BinaryIO, offset: int, size: int, index: int) -> Frame:
    file.seek(offset)
    head = file.read(5)
    if len(head) < len(MAGIC):
        return Frame(index, offset, offset, offset, True)
    if head[:4] != MAGIC:
        raise CorruptFrameError("frame-magic", f"no frame begins at byte {offset}", offset)
    if len(head) == len(MAGIC):
        return Frame(index, offset, offset, offset, True)
    descriptor = head[4]
    if descriptor & 0x0B:
        what = "reserved bit set" if descriptor & 0x08 else "needs a dictionary"
        raise CorruptFrameError("frame-corrupt", f"frame at byte {offset}: {what}", offset)
    single = descriptor >> 5 & 1
    sized = _CONTENT_SIZE_BYTES[descriptor >> 6]
    blocks = offset + 5 + (sized or 1 if single else 1 + sized)
    end = blocks
    last = False
    while not last:
        block = _block_size(file, end, offset)
        if block is None or end + block[0] > size:
            return Frame(index, offset, blocks, max(min(end, size), offset), True)
        end += block[0]
        last = block[1]
    checked = end + (4 if descriptor & 0x04 else 0)
    return Frame(index, offset, blocks, checked if checked <= size else end, checked > size)


def _block_size(file: BinaryIO, at: int, frame_offset: int) -> tuple[int, bool] | None:
    """(bytes of the block with its header, is it the last one); None when the header is cut."""
    file.seek(at)
    raw = file.read(3)
    if len(raw) < 3:
        return None
    bits = int.from_bytes(raw, "little")
    kind = bits >> 1 & 3
    if kind == _RESERVED_BLOCK:
        message = f"frame at byte {frame_offset}: reserved block type"
        raise CorruptFrameError("frame-corrupt", message, frame_offset)
    return 3 + (1 if kind == _RLE_BLOCK else bits >> 3), bool(bits & 1)


def _decode(file: BinaryIO, frame: Frame) -> Iterator[bytes]:
    if frame.torn and frame.end <= frame.blocks:
        return
    decoder = zstandard.ZstdDecompressor().decompressobj()
    at, step, last = frame.offset, frame.blocks - frame.offset, False
    try:
        while at < frame.end:
            file.seek(at)
            piece = decoder.decompress(file.read(step))
            at += step
            if piece:
                yield piece
            block = None if last else _block_size(file, at, frame.offset)
            # Behind the last block stand the four bytes of a checksum, if anything.
            step, last = (frame.end - at, True) if block is None else block
    except zstandard.ZstdError as error:
        message = f"frame at byte {frame.offset} failed validation: {error}"
        raise CorruptFrameError("frame-corrupt", message, frame.offset) from error
    if not frame.torn and not decoder.eof:
        message = f"frame at byte {frame.offset} failed validation: it does not end"
        raise CorruptFrameError("frame-corrupt", message, frame.offset)
