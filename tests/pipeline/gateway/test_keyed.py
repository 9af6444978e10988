from __future__ import annotations

from typing import Any

from pipeline.gateway.keyed import Json, KeyedSession, KeyedStore, lengthened


def row(key: str, rev: int, *texts: str, at: int | None = None, **more: Any) -> Json:
    blocks = [{"type": "text", "text": text} for text in texts]
    of = {"session": "s", "epoch": 0, "key": key, "rev": rev, "seq": rev, "deleted": False}
    anchor = {"anchor_seq": rev if at is None else at, "anchor_rank": 0}
    return of | anchor | {"data": {"blocks": blocks}} | more


def upsert(body: Json) -> Json:
    of = {name: body[name] for name in ("session", "epoch", "key", "rev")}
    return {"t": "row", **of, "row": body}


def append(key: str, rev: int, offset: int, text: str, block: int = 0, epoch: int = 0) -> Json:
    return {
        "t": "append",
        "session": "s",
        "epoch": epoch,
        "key": key,
        "rev": rev,
        "block": block,
        "block_type": "text",
        "offset": offset,
        "text": text,
    }


def overview(seq: int, epoch: int = 0, **more: Any) -> Json:
    body = {"session": "s", "epoch": epoch, "seq": seq} | more
    return {"t": "overview", "session": "s", "epoch": epoch, "seq": seq, "overview": body}


def snapshot(*rows: Json, epoch: int = 0, has_more: bool = False, **more: Any) -> Json:
    return {
        "t": "snapshot",
        "session": "s",
        "epoch": epoch,
        "view": "transcript",
        "reason": "new",
        "rows": list(rows),
        "has_more": has_more,
        "overview": None,
        "surface": None,
        "overviews": None,
        **more,
    }


def holding(*rows: Json, has_more: bool = False) -> KeyedSession:
    held = KeyedSession()
    held.apply(snapshot(*rows, has_more=has_more))
    return held


def texts(held: KeyedSession, key: str) -> list[str]:
    found = held.row(key)
    assert found is not None
    return [block["text"] for block in found["data"]["blocks"]]


# --- upserts


def test_a_row_counts_iff_its_revision_is_higher() -> None:
    held = holding(row("a:1", 5, "five"))
    assert not held.apply(upsert(row("a:1", 5, "again")))
    assert not held.apply(upsert(row("a:1", 4, "four")))
    assert texts(held, "a:1") == ["five"]
    assert held.apply(upsert(row("a:1", 6, "six")))
    assert texts(held, "a:1") == ["six"]


def test_rows_stand_in_log_order_and_move() -> None:
    held = holding(row("a:1", 1), row("b:2", 2), row("c:2", 2))
    assert [r["key"] for r in held.rows] == ["a:1", "b:2", "c:2"]
    held.apply(upsert(row("a:1", 9)))
    assert [r["key"] for r in held.rows] == ["b:2", "c:2", "a:1"]


def test_a_deleted_row_is_gone_and_does_not_come_back_by_an_old_page() -> None:
    held = holding(row("b:5", 5), has_more=True)
    held.apply(upsert(row("a:1", 7, at=1, deleted=True, data=None)))
    held.older([row("a:1", 1, "old")], held.generation, has_more=False)
    assert [r["key"] for r in held.rows] == ["b:5"]
    held.apply(upsert(row("a:1", 8, at=1)))
    assert [r["key"] for r in held.rows] == ["a:1", "b:5"]


def test_a_higher_epoch_voids_all_and_a_lower_one_is_void() -> None:
    held = holding(row("a:1", 5))
    held.apply(overview(-1, epoch=1))
    assert held.rows == ()
    assert not held.apply(upsert(row("a:1", 9)))
    assert not held.apply(append("a:1", 10, 0, "x"))
    assert held.apply(upsert(row("a:1", 0, epoch=1)))


def test_an_overview_counts_if_its_seq_is_not_lower() -> None:
    held = holding()
    assert held.apply(overview(3, faults=0))
    assert held.apply(overview(3, faults=1))
    assert not held.apply(overview(2, faults=9))
    assert not held.apply(overview(3, faults=1))  # nothing changed
    assert held.overview == {"session": "s", "epoch": 0, "seq": 3, "faults": 1}


# --- text


def test_text_is_appended_at_code_points() -> None:
    held = holding(row("a:1", 1, "x\U0001f600", ""))
    assert held.apply(append("a:1", 2, 2, "\u4e16"))
    assert held.apply(append("a:1", 3, 0, "y", block=1))
    assert texts(held, "a:1") == ["x\U0001f600\u4e16", "y"]
    assert not held.wanted


def test_text_twice_is_once() -> None:
    held = holding(row("a:1", 1, ""))
    frame = append("a:1", 2, 0, "x")
    assert held.apply(frame)
    assert not held.apply(frame)
    assert texts(held, "a:1") == ["x"]


def test_text_that_does_not_fit_makes_the_row_wanted_until_it_is_as_new() -> None:
    held = holding(row("a:1", 1, "x"))
    assert not held.apply(append("a:1", 4, 3, "d"))
    assert held.wanted == {"a:1": 4}
    assert not held.apply(append("a:1", 5, 4, "e"))  # would fit what is to come, not what is held
    assert held.wanted == {"a:1": 5}
    held.fetched(row("a:1", 3, "xbc"), held.generation)  # the server was not there yet
    assert held.wanted == {"a:1": 5}
    held.fetched(row("a:1", 5, "xbcde"), held.generation)
    assert held.wanted == {}
    assert held.apply(append("a:1", 6, 5, "f"))
    assert texts(held, "a:1") == ["xbcdef"]


def test_text_before_its_row_makes_it_wanted() -> None:
    held = holding()
    held.apply(append("a:1", 4, 0, "x"))
    held.apply(upsert(row("a:1", 3, "")))
    assert held.wanted == {"a:1": 4}
    held.fetched(None, held.generation)
    assert held.wanted == {"a:1": 4}
    held.apply(upsert(row("a:1", 7, "xyz")))
    assert held.wanted == {}


def test_text_for_what_has_no_such_block_does_not_fit() -> None:
    shapes: tuple[Any, ...] = (
        None,
        {},
        {"blocks": {"ref": "a:1/blocks"}},
        {"blocks": ["x"]},
        {"blocks": []},
    )
    for data in shapes:
        assert lengthened(row("a:1", 1, data=data), append("a:1", 2, 0, "x")) is None
    call = row("a:1", 1, data={"blocks": [{"type": "tool-call", "arguments": "{"}]})
    assert lengthened(call, append("a:1", 2, 1, "x")) is None
    longer = lengthened(call, append("a:1", 2, 1, "}") | {"block_type": "tool-call"})
    assert longer is not None
    assert longer["data"]["blocks"][0]["arguments"] == "{}"


# --- snapshots and pages


def test_a_snapshot_takes_the_place_of_what_is_held() -> None:
    held = holding(row("a:1", 1), row("b:2", 9))
    held.apply(append("a:1", 4, 3, "x"))
    held.apply(snapshot(row("b:2", 5), has_more=True))
    assert [(r["key"], r["rev"]) for r in held.rows] == [("b:2", 5)]
    assert held.wanted == {}


def test_the_snapshot_of_another_view_leaves_the_rows() -> None:
    held = holding(row("a:1", 1))
    surface = {"generation": 1, "as_of_seq": 4, "nodes": [{"seq": 4}]}
    held.apply(snapshot(view="surface", surface=surface) | {"rows": None})
    assert held.surface == surface
    assert len(held.rows) == 1


def test_pages_are_put_above_what_is_held() -> None:
    held = holding(row("c:5", 5), row("d:6", 6), has_more=True)
    held.apply(upsert(row("a:1", 9, "new", at=1)))  # far above, not shown between holes
    assert [r["key"] for r in held.rows] == ["c:5", "d:6"]
    assert held.before == (5, 0, "c:5")
    assert held.older([row("b:3", 3)], held.generation, has_more=True)
    assert [r["key"] for r in held.rows] == ["b:3", "c:5", "d:6"]
    assert held.older([row("a:1", 1, "old")], held.generation, has_more=False)
    assert [r["key"] for r in held.rows] == ["a:1", "b:3", "c:5", "d:6"]
    assert texts(held, "a:1") == ["new"]
    assert held.before is None


def test_a_reply_to_what_was_asked_before_a_snapshot_is_late() -> None:
    held = holding(row("c:5", 5), has_more=True)
    before = held.generation
    held.apply(snapshot(row("c:5", 5), has_more=True))
    assert not held.older([row("b:3", 3)], before, has_more=False)
    assert not held.fetched(row("b:3", 3), before)
    assert held.has_more


# --- the surface


def test_the_surface_follows_its_steps() -> None:
    held = KeyedSession()
    for seq in (1, 2, 3):
        held.apply(surface(seq, op="append", position=seq - 1))
    assert held.apply(surface(9, op="replace", position=0, shadowed=[1, 2], generation=1))
    assert not held.apply(surface(3, op="append", position=3))
    assert held.apply(surface(10, op="amend", targets=[]))
    assert held.surface is not None
    assert [node["seq"] for node in held.surface["nodes"]] == [9, 3]
    assert (held.surface["generation"], held.surface["as_of_seq"]) == (1, 10)
    held.apply(surface(-1, op="reset") | {"epoch": 1})
    assert held.surface is None


def test_offloaded_images_are_marked_and_no_other_node_is_touched() -> None:
    """projection.md §4: by whoever holds the message; counted depth first, offloaded ones too."""
    held = KeyedSession()
    image = {"type": "image", "attachment": {"name": "\ud83d"}}
    done = {**image, "offloaded": True}
    within = {"type": "tool-result", "content": [image, {"type": "text", "text": "t"}, image]}
    message = {"id": "m", "content": [done, "odd", None, within, image]}
    for seq in (1, 2):
        held.apply(surface(seq, op="append", position=seq - 1, message=message))
    assert held.surface is not None
    first = held.surface["nodes"][0]
    targets = [{"seq": 2, "images": [0, 2, 3]}, {"seq": 7, "images": [0]}]
    held.apply(surface(3, op="amend", message=None, targets=targets))
    nodes = held.surface["nodes"]
    assert nodes[0] is first
    assert nodes[1]["message"] == {
        "id": "m",
        "content": [
            done,
            "odd",
            None,
            {**within, "content": [image, within["content"][1], done]},
            done,
        ],
    }


def surface(seq: int, **more: Any) -> Json:
    change = {"seq": seq, "type": "user/message", "message": {}, "shadowed": [], "generation": 0}
    return {"t": "surface", "session": "s", "epoch": 0, "seq": seq, "change": change | more}


# --- identity: a view renders what changed and no more


def test_rows_that_do_not_change_are_the_very_same_objects() -> None:
    held = holding(row("a:1", 1, "a"), row("b:2", 2, "b", "c"))
    first, second = held.rows
    held.apply(append("b:2", 3, 1, "more", block=1))
    assert held.rows[0] is first
    assert held.rows[1] is not second
    assert held.rows[1]["data"]["blocks"][0] is second["data"]["blocks"][0]
    before = held.rows
    held.apply(upsert(row("a:1", 1, "again")))
    held.apply({"t": "current", "session": "s", "epoch": 0})
    assert held.rows is before
    held.apply(snapshot(row("a:1", 1, "a"), row("c:4", 4, "new")))
    assert held.rows[0] is first


# --- many sessions


def test_a_store_holds_what_each_session_told() -> None:
    store = KeyedStore()
    assert store.apply(upsert(row("a:1", 1))) == "s"
    assert store.apply(upsert(row("a:1", 1))) is None
    assert store.apply(upsert(row("a:1", 1, session="t"))) == "t"
    assert set(store.sessions) == {"s", "t"}
    for frame in ({"t": "ping"}, {"t": "hello", "v": 1}, {"t": "later", "session": "s"}, {}):
        assert store.apply(frame) is None


def test_a_kind_of_later_versions_is_ignored() -> None:
    held = holding(row("a:1", 1))
    assert not held.apply({"t": "later", "session": "s", "epoch": 9})
    assert held.epoch == 0


def test_a_snapshot_voids_the_cursor() -> None:
    store = KeyedStore()
    store.apply({"t": "cursor", "cursor": "abc"})
    assert store.cursor == "abc"
    store.apply(upsert(row("a:1", 1)))
    assert store.cursor == "abc"
    store.apply(snapshot())
    assert store.cursor is None


def test_a_snapshot_of_all_sessions_says_which_there_are() -> None:
    store = KeyedStore()
    store.apply(overview(3, epoch=2))
    told = [{"session": "t", "epoch": 0, "seq": 1}]
    store.apply(snapshot(view="overview") | {"session": "", "rows": None, "overviews": told})
    assert store.session("s").overview is None
    assert store.session("t").overview == told[0]
    lower = [{"session": "s", "epoch": 0, "seq": 1}]  # other topics, or a gateway that is behind
    store.apply(snapshot(view="overview") | {"session": "", "rows": None, "overviews": lower})
    assert store.session("s").overview == lower[0]


def test_a_session_that_is_gone_comes_again_in_any_epoch() -> None:
    store = KeyedStore()
    store.apply(overview(3, epoch=2))
    store.apply(snapshot(view="overview") | {"session": "", "rows": None, "overviews": []})
    assert store.apply(overview(0, epoch=0)) == "s"
    assert store.session("s").overview == overview(0)["overview"]
