"""Frames by structure: complete, torn at every byte, damaged; memory bounded by a block."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from schemas import zstdframes
from schemas.jsonl import MAX_LINE_BYTES, open_log
from schemas.zstdframes import CorruptFrameError, content, frames
from tests.schemas.logs import frame


def decoded(data: bytes) -> list[tuple[bytes, bool]]:
    file = io.BytesIO(data)
    return [(b"".join(content(file, found)), found.torn) for found in frames(file)]


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("level", [1, 19])
def test_frames_of_any_level_with_and_without_checksum(level: int, checksum: bool) -> None:
    parts = [b"one\n", b"", b"x" * 300_000, noise(200_000)]
    data = b"".join(frame(part, checksum=checksum, level=level) for part in parts)
    assert decoded(data) == [(part, False) for part in parts]


def test_a_frame_that_does_not_say_its_size() -> None:
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    data = writer.compress(b"a" * 500_000) + writer.flush()
    assert decoded(data) == [(b"a" * 500_000, False)]


def test_a_cut_at_any_byte_leaves_the_complete_frames_and_a_torn_one() -> None:
    first, second = frame(b"one\n" * 50), frame(noise(400))
    for cut in range(len(first) + 1, len(first) + len(second)):
        (whole, torn), last = decoded((first + second)[:cut])
        assert (whole, torn) == (b"one\n" * 50, False)
        assert last[1]


def test_a_torn_frame_is_decoded_as_far_as_its_complete_blocks_go() -> None:
    text = noise(300_000)  # three blocks of at most 128 KiB
    data = frame(text)
    block = 128 * 1024
    for cut, whole in ((block + 100, 1), (2 * block + 100, 2), (len(data) - 2, 3)):
        [(got, torn)] = decoded(data[:cut])
        assert torn
        assert got == text[: whole * block]


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (b"\x50\x2a\x4d\x18\x01\x00\x00\x00x", "frame-magic"),  # a skippable frame
        (b"\0\0\0\0", "frame-magic"),
        (b"plain text\n", "frame-magic"),
        (b"\x28\xb5\x2f\xfd\x08\x00", "frame-corrupt"),  # the reserved bit
        (b"\x28\xb5\x2f\xfd\x01\x00\x00", "frame-corrupt"),  # wants a dictionary
        (b"\x28\xb5\x2f\xfd\x00\x58\x07\x00\x00", "frame-corrupt"),  # block type 3
    ],
)
def test_what_is_no_frame_is_corruption_at_its_offset(tail: bytes, code: str) -> None:
    good = frame(b"one\n")
    with pytest.raises(CorruptFrameError) as caught:
        decoded(good + tail)
    assert (caught.value.code, caught.value.offset) == (code, len(good))


@pytest.mark.parametrize("tail", [b"\0", b"\0\0", b"\0\0\0", b"\x28\xb5\x2f\xfd"])
def test_less_than_a_frame_is_torn(tail: bytes) -> None:
    assert decoded(frame(b"one\n") + tail) == [(b"one\n", False), (b"", True)]


def test_nothing_of_a_frame_with_a_wrong_checksum_is_handed_on() -> None:
    data = bytearray(frame(noise(300_000)))
    data[-1] ^= 1
    file = io.BytesIO(data)
    [found] = frames(file)
    with pytest.raises(CorruptFrameError, match="failed validation"):
        next(content(file, found))


def test_a_long_frame_is_decoded_twice_instead_of_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstdframes, "HOLD", 1000)
    text = b"abc" * 500_000
    file = io.BytesIO(frame(text))
    pieces = list(content(file, next(frames(file))))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= 128 * 1024


def bomb(blocks: int) -> bytes:
    """A frame of so many blocks, each 128 KiB said in four bytes, and a line's end."""
    head = zstandard.MAGIC_NUMBER.to_bytes(4, "little") + b"\x00\x58"  # window 2 MiB, no size
    size = 128 * 1024
    block = (size << 3 | 1 << 1).to_bytes(3, "little") + b"a"
    return head + block * blocks + (1 << 3 | 1).to_bytes(3, "little") + b"\n"


def test_a_bomb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """32 KiB that become a line of 1 GiB: it is too large, and no more memory than
    that of a line."""
    path = tmp_path / "session.v4.jsonl.zstd"
    path.write_bytes(bomb(8_192))
    tracemalloc.start()
    try:
        log = open_log(path)
        assert list(log.lines) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "too-large" in [each.code for each in log.damage]
    assert peak < 4 * MAX_LINE_BYTES
