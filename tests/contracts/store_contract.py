"""What `pipeline.ports.StateStore` promises, whoever implements it."""

from __future__ import annotations

from pipeline.ports import StateStore


class StoreContract:
    def test_unknown_is_none(self, store: StateStore) -> None:
        assert store.segments(0, "s") is None
        assert store.sessions(0) == 0

    def test_segments_gather_and_the_last_write_counts(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"1"), ("s", "t0", b"x"), ("r", "", b"r"), ("s", "", b"2")], 1)
        assert dict(store.segments(0, "s") or {}) == {"": b"2", "t0": b"x"}
        assert store.sessions(0) == 2
        store.write(0, [("s", "t1", b"y")], 1)
        assert dict(store.segments(0, "s") or {}) == {"": b"2", "t0": b"x", "t1": b"y"}

    def test_none_deletes_a_segment_and_the_last_one_the_session(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"1"), ("s", "t0", b"x"), ("s", "t0", None), ("u", "", None)], 1)
        assert dict(store.segments(0, "s") or {}) == {"": b"1"}
        store.write(0, [("s", "", None)], 1)
        assert store.segments(0, "s") is None
        assert store.sessions(0) == 0

    def test_partitions_are_apart(self, store: StateStore) -> None:
        store.write(0, [("s", "", b"0")], 1)
        store.write(1, [("s", "", b"1")], 1)
        store.wipe(0)
        store.wipe(7)
        assert store.segments(0, "s") is None
        assert dict(store.segments(1, "s") or {}) == {"": b"1"}

    def test_any_text_and_bytes(self, store: StateStore) -> None:
        names = ["\x1f", "a\x1fb", "é\U0001f600", "\x00", " "]
        store.write(3, [(name, "", name.encode()) for name in names], 1)
        assert store.sessions(3) == len(names)
        assert all(dict(store.segments(3, name) or {}) == {"": name.encode()} for name in names)

    def test_the_position_is_that_of_the_last_write(self, store: StateStore) -> None:
        assert store.open(0) is None
        store.write(0, [("s", "", b"1")], 5)
        store.write(1, [], 9)
        store.write(0, [], 7)
        assert (store.open(0), store.open(1)) == (7, 9)
        store.wipe(0)
        assert (store.open(0), store.open(1)) == (None, 9)
