"""Lists of sessions and their lineage (readers.md §12)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from operators.readers.lineage import Conflict, Family, Lineage, SessionRecord, listed

IDS = ("", "a", "b", "c", "d")
records = st.lists(
    st.builds(
        SessionRecord,
        st.sampled_from(IDS),
        st.none() | st.integers(0, 3),
        parent=st.none() | st.sampled_from((*IDS, "gone")),
        live=st.booleans(),
    ),
    max_size=7,
)


def way_up(known: dict[str, SessionRecord], target: str) -> tuple[list[str], str, str | None]:
    """Step by step: those above, how it ends, and at which id."""
    above: list[str] = []
    at = known[target].parent
    while at is not None:
        if at == target or at in above:
            return above, "cycle", at
        if at not in known:
            return above, "unresolved", at
        above.append(at)
        at = known[at].parent
    return above, "root", above[-1] if above else target


def below(known: dict[str, SessionRecord], target: str) -> set[str]:
    found: set[str] = set()
    fresh = {target}
    while fresh:
        fresh = {r.id for r in known.values() if r.parent in fresh} - found - {target}
        found |= fresh
    return found


@given(records)
def test_lineage_is_what_a_walk_says(drawn: list[SessionRecord]) -> None:
    known = {record.id: record for record in drawn}
    family = Family(drawn)
    assert family.lineage("nobody") is None
    for target in known:
        made = family.lineage(target)
        assert made is not None
        above, end, at = way_up(known, target)
        assert [kin.id for kin in made.ancestors] == above
        ends = {"cycle": made.cycle_at, "unresolved": made.unresolved, "root": made.root}
        assert ends == {name: at if name == end else None for name in ends}
        assert made.complete is (end == "root")
        ids = [kin.id for kin in made.descendants]
        assert len(ids) == len(set(ids))
        assert set(ids) == below(known, target)
        depths = {target: 0}
        for kin in made.descendants:
            assert kin.parent in depths, "a child stands after its parent"
            depths[kin.id] = kin.depth
            assert kin.depth == depths[kin.parent] + 1


def test_a_chain_as_deep_as_data_make_it() -> None:
    chain = [
        SessionRecord(f"{n:05}", n, parent=f"{n - 1:05}" if n else None) for n in range(20_000)
    ]
    family = Family(chain)
    top, bottom = family.lineage("00000"), family.lineage("19999")
    assert top is not None
    assert bottom is not None
    assert len(top.descendants) == len(bottom.ancestors) == 19_999
    assert (top.descendants[-1].depth, bottom.root) == (19_999, "00000")


def test_ten_thousand_children_in_order() -> None:
    children = [SessionRecord(f"{n:05}", 10_000 - n, parent="p") for n in range(10_000)]
    made = Family([SessionRecord("p"), *children]).lineage("p")
    assert made is not None
    assert [kin.id for kin in made.descendants] == [c.id for c in reversed(children)]


def test_edges_say_what_they_are() -> None:
    family = Family(
        [
            SessionRecord("p"),
            SessionRecord("f", 1, parent="p", seed_length=5),
            SessionRecord("s", 2, parent="p", origin="subagent", seed_length=5),
            SessionRecord("c", 3, parent="p"),
        ]
    )
    made = family.lineage("p")
    assert made is not None
    assert [kin.link for kin in made.descendants] == ["fork", "subagent", "child"]


def test_a_cycle_is_a_result_and_spoils_no_other() -> None:
    family = Family(
        [
            SessionRecord("x", parent="y"),
            SessionRecord("y", parent="x"),
            SessionRecord("tail", parent="x"),
            SessionRecord("free"),
        ]
    )
    tail = family.lineage("tail")
    assert tail is not None
    assert ([kin.id for kin in tail.ancestors], tail.cycle_at) == (["x", "y"], "x")
    assert family.lineage("free") == Lineage("free", (), (), True, "free")


def test_a_list_prefers_the_live_header_and_tells_conflicts() -> None:
    stored = SessionRecord("a", 5, "/w", persisted=True)
    live = SessionRecord("a", 5, "/w", origin="subagent", depth=0, live=True)
    other = SessionRecord("b", 9, persisted=True)
    found, conflicts = listed([stored, other, live, SessionRecord("b", 8, live=True)])
    assert [record.id for record in found] == ["b", "a"]
    assert (found[1].origin, found[1].live, found[1].persisted) == ("subagent", True, True)
    assert conflicts == [Conflict("b", ("created_at",))]


@given(records)
def test_a_list_has_every_id_once_newest_first(drawn: list[SessionRecord]) -> None:
    found, _ = listed(drawn)
    assert {record.id for record in found} == {record.id for record in drawn}
    keys = [(-(record.created_at or 0), record.id) for record in found]
    assert keys == sorted(set(keys))
