"""What `pipeline.ports.StateStore` promises, whoever implements it."""

from __future__ import annotations

from pipeline.ports import StateStore


class StoreContract:
    def test_unknown_is_none(self, store: StateStore) -> None:
        assert store.open(0) is None
        assert store.segments(0, "s") is None
        assert store.sessions(0) == 0

    def test_segments_gather_and_the_last_write_counts(self, store: StateStore) -> None:
        items = [("s", "", b"1"), ("s", "t0", b"x"), ("r", "", b"r"), ("s", "", b"2")]
        store.write(0, items, 4)
        assert dict(store.segments(0, "s") or {}) == {"": b"2", "t0": b"x"}
        assert store.sessions(0) == 2
        store.write(0, [("s", "t1", b"y")], 5)
        assert dict(store.segments(0, "s") or {}) == {"": b"2", "t0": b"x", "t1": b"y"}
        assert store.sessions(0) == 2

    def test_none_deletes_a_segment_and_the_last_one_the_session(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"1"), ("s", "t0", b"x"), ("s", "t0", None), ("u", "", None)], 4)
        assert dict(store.segments(0, "s") or {}) == {"": b"1"}
        assert store.sessions(0) == 1
        store.write(0, [("s", "", None)], 5)
        assert store.segments(0, "s") is None
        assert store.sessions(0) == 0
        store.write(0, [("s", "", None), ("s", "", b"2"), ("s", "", None), ("s", "", b"3")], 9)
        assert dict(store.segments(0, "s") or {}) == {"": b"3"}
        assert store.sessions(0) == 1

    def test_without_its_head_a_session_is_not_there(self, store: StateStore) -> None:
        store.write(0, [("s", "t0", b"x")], 1, current=False)
        assert store.segments(0, "s") is None
        store.write(0, [("s", "", b"1")], 2, current=False)
        assert dict(store.segments(0, "s") or {}) == {"": b"1", "t0": b"x"}

    def test_the_position_is_that_of_the_last_write(self, store: StateStore) -> None:
        store.write(2, [("s", "", b"1")], 17, current=False)
        assert store.open(2) == 17
        store.write(2, [], 19)  # markers alone move it, too
        assert store.open(2) == 19
        assert dict(store.segments(2, "s") or {}) == {"": b"1"}
        assert store.open(1) is None

    def test_partitions_are_apart(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"0")], 1)
        store.write(1, [("s", "", b"1")], 1)
        store.wipe(0)
        store.wipe(7)
        assert store.open(0) is None
        assert store.segments(0, "s") is None
        assert store.sessions(0) == 0
        assert dict(store.segments(1, "s") or {}) == {"": b"1"}

    def test_what_was_released_is_whole_or_gone(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"0")], 3)
        store.release(0)
        held = store.open(0)
        assert held in (None, 3)
        assert store.sessions(0) == (0 if held is None else 1)
        assert (store.segments(0, "s") is None) == (held is None)

    def test_a_wiped_partition_is_written_anew(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"0"), ("r", "", b"r")], 8)
        store.wipe(0)
        store.write(0, [("s", "t0", b"t"), ("s", "", b"1")], 2)
        assert store.open(0) == 2
        assert store.sessions(0) == 1
        assert dict(store.segments(0, "s") or {}) == {"": b"1", "t0": b"t"}
        assert store.segments(0, "r") is None

    def test_any_text_and_bytes(self, store: StateStore) -> None:
        names = ["\x1f", "a", "a\x1fb", "a\x1fbc", "ab", "é\U0001f600", "\x00", " ", "l" * 4096, ""]
        store.write(3, [(name, "", b"\x00" + name.encode()) for name in names], 1)
        store.write(3, [(name, "t0/1", b"") for name in names], 2)
        assert store.sessions(3) == len(names)
        for name in names:
            expected = {"": b"\x00" + name.encode(), "t0/1": b""}
            assert dict(store.segments(3, name) or {}) == expected, name

    def test_large_values(self, store: StateStore) -> None:
        value = bytes(range(256)) * 4096
        store.write(0, [("s", "", b"h"), *(("s", f"p{n}", value) for n in range(20))], 21)
        found = store.segments(0, "s") or {}
        assert len(found) == 21
        assert all(found[f"p{n}"] == value for n in range(20))
