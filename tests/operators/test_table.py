"""The map that knows what a snapshot must save again."""

from operators.table import SHIFT, Table


def test_put_get_drop() -> None:
    table: Table[str] = Table()
    table.put(3, "a")
    table.put(300, "b")
    table.put(3, "c")
    assert (table.get(3), table[300], table.get(4), len(table)) == ("c", "b", None, 2)
    assert sorted(table) == [3, 300]
    table.drop(3)
    table.drop(4)
    assert sorted(table) == [300]


def test_a_change_marks_its_segment_and_nothing_else() -> None:
    table: Table[str] = Table()
    for key in (0, 1, 16, 40):
        table.put(key, "x")
    table.dirty.clear()
    table.put(17, "y")
    table.drop(40)
    table.drop(99)  # nothing was there
    assert table.dirty == {17 >> SHIFT, 40 >> SHIFT}
    assert (table.segment(1), table.segment(2), table.segment(0)) == (["x", "y"], [], ["x", "x"])


def test_a_fork_changes_alone() -> None:
    table: Table[str] = Table()
    table.put(1, "a")
    twin = table.fork()
    twin.put(1, "b")
    twin.put(20, "c")
    table.dirty.clear()
    assert (table[1], len(table), twin[1], twin.dirty) == ("a", 1, "b", {0, 1})
