"""RocksDB as the local store sets it, and its errors by remedy
(``deploy/decisions/2026-11-30-local-store.md``).

There is no write-ahead log: a kill loses what was not written out yet, states and position alike,
and that is read again from the topic. Values lie in blob files, so that compaction moves only keys.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from pipeline.errors import Fatal

#: Of one partition, written out when full: what is read again after a kill.
WRITE_BUFFER = 8 << 20

#: Of all partitions together; and blocks of keys (values are not cached: the residents are).
WRITE_BUFFERS = 64 << 20
BLOCK_CACHE = 32 << 20

#: Leading bytes of a key that are one session's: filters tell which files have any.
PREFIX = 8

#: A shorter value stays with its key.
BLOB_FROM = 256
BLOB_FILE = 32 << 20

#: Of one partition, kept open; a process may often have 1 024, and a large store has thousands.
OPEN_FILES = 48

MEMORY_ONLY = "start with --state-dir none (every restart then reads the whole state topic)"


#: A write that is refused is tried again after so long, and for so long.
PAUSE_S = 0.005
STALLED_S = 60.0


class StoreFull(Fatal):
    """The disk of the state folder is full. Nothing is lost: the topic has it all."""


class StoreBroken(Fatal):
    """The state folder cannot be used: rights, a failing disk, too many open files."""


class Damaged(Exception):  # noqa: N818 - named by what it says of the files
    """Files are missing, cut or changed: what they held is on the topic."""


class Stalled(Exception):  # noqa: N818 - as above
    """RocksDB takes no writes before it has written out what it holds."""


class Memory:
    """What the databases of one worker share; ``write_buffer`` is of each of them."""

    def __init__(self, write_buffer: int = WRITE_BUFFER) -> None:
        self.write_buffer = write_buffer
        self.cache = Cache(BLOCK_CACHE)
        self.buffers = WriteBufferManager(WRITE_BUFFERS, allow_stall=False)
        self.one_session = ReadOptions()  # for iterators: look only where its filter says
        self.one_session.set_prefix_same_as_start(True)


def open_database(path: Path, memory: Memory) -> Rdict:
    """Made if there is none. `Damaged`, `StoreFull` or `StoreBroken`."""
    with by_remedy(path):
        database = Rdict(str(path), _options(memory))
        unlogged = WriteOptions()
        unlogged.disable_wal = True  # type: ignore[method-assign,assignment] # typed as a method
        unlogged.no_slowdown = True
        database.set_write_options(unlogged)
        return database


def write(database: Rdict, path: Path, changes: Callable[[], WriteBatch], room: int) -> None:
    """Waits while RocksDB writes out what it holds. On a full disk its own wait may have no end, so
    a write is refused instead (``no_slowdown``) and tried again: `StoreFull` when less than
    ``room`` bytes are free meanwhile, `StoreBroken` when it lasts."""
    until = time.monotonic() + STALLED_S
    while True:
        try:
            with by_remedy(path):
                database.write(changes())
                return
        except Stalled as stalled:
            with from_os(str(path)):
                free = shutil.disk_usage(path).free
            if free < room:
                raise _full(path) from stalled
            if time.monotonic() >= until:
                raise _broken(path, f"it has taken no write for {STALLED_S:g} s") from stalled
            time.sleep(PAUSE_S)


def batch(changes: Iterable[tuple[bytes, bytes | None]]) -> WriteBatch:
    """None deletes."""
    made = WriteBatch(raw_mode=True)
    for key, value in changes:
        if value is None:
            made.delete(key)
        else:
            made.put(key, value)
    return made


def _options(memory: Memory) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(memory.cache)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(10, False)
    blocks.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIX))
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(memory.write_buffer)
    options.set_write_buffer_manager(memory.buffers)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_max_open_files(OPEN_FILES)
    options.set_compression_type(DBCompressionType.none())
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_FROM)
    options.set_blob_file_size(BLOB_FILE)
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(0.5)
    options.set_blob_gc_force_threshold(0.5)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    return options


@contextmanager
def by_remedy(path: Path) -> Iterator[None]:
    """RocksDB's errors as ours. rocksdict raises them as plain ``Exception``, told apart only by
    RocksDB's own text."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise translated(path, str(error)) from error


def translated(path: Path, text: str) -> Exception:
    if text.startswith("Result incomplete"):
        return Stalled(text)
    if "No space left" in text or "Disk quota exceeded" in text:
        return _full(path)
    # What is said to be corrupt because it could not be opened is not: EMFILE, EACCES, EIO.
    environment = ("Too many open files", "Permission denied", "Input/output error", "/LOCK")
    if not any(word in text for word in environment) and text.startswith(_OF_FILES):
        return Damaged(text)
    return _broken(path, text)


_OF_FILES = ("Corruption", "Invalid argument", "Not found", "IO error: No such file")


@contextmanager
def from_os(what: str) -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except OSError as error:
        path = Path(str(error.filename or what))
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(path) from error
        raise _broken(path, f"{what}: {error.strerror}") from error


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"the disk of the local store is full ({path})",
        "free some space or name another folder with --state-dir; it goes on where it stopped. "
        f"Or {MEMORY_ONLY}",
    )


def _broken(path: Path, text: str) -> StoreBroken:
    return StoreBroken(
        f"the local store {path} cannot be used: {text}",
        f"see to the folder, or name another with --state-dir; or {MEMORY_ONLY}",
    )
