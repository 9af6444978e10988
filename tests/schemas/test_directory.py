"""Which file holds which session: roots, projects, plain folders, one file; and every problem."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schemas.directory import Found, Scan, scan
from schemas.jsonl import Damage, open_log
from tests.schemas.logs import header, raw, row, turns, zstd


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def session(
    root: Path, name: str, *, project: str = "--b--", file: str = "session.v4.jsonl"
) -> Path:
    version = 4 if ".v4." in file else 0
    lines = turns(1, version, name)
    return put(root / project / name / file, (zstd if file.endswith("zstd") else raw)(lines))


def ids(found: Scan) -> list[str]:
    return [entry.session for entry in found.sessions]


def codes(found: Scan) -> list[str]:
    return [problem.code for problem in found.problems]


def test_the_highest_generation_counts_and_the_others_are_kept(tmp_path: Path) -> None:
    old = session(tmp_path, "one", file="session.jsonl")
    new = session(tmp_path, "one", file="session.v4.jsonl")
    for ignored in ("session.lock", "session.v0.jsonl", "session.v04.jsonl", "x.tmp", "a/b.jsonl"):
        put(new.parent / ignored, b"?")
    put(tmp_path / "README.txt", b"")
    put(tmp_path / "session.v4.jsonl", b"?")
    found = scan(tmp_path)
    assert found.harness
    assert found.sessions == (Found("one", new, "raw", 4, (old,)),)
    assert codes(found) == ["stray-file"] * 3  # session.v0 and .v04 in it, session.v4 at the root


def test_a_directory_with_a_lock_alone_is_no_session(tmp_path: Path) -> None:
    session(tmp_path, "one")
    put(tmp_path / "--b--" / "two" / "session.lock", b"")
    found = scan(tmp_path)
    assert ids(found) == ["one"]
    assert [(problem.code, problem.fatal) for problem in found.problems] == [
        ("no-transcript", False)
    ]


def test_awkward_names(tmp_path: Path) -> None:
    lines = [header("sess:~1/ü 🙂", cwd="/x y"), row(0)]
    put(
        tmp_path / "--x~0020y--/sess~003A~007E1~002F~00FC~0020~D83D~DE42/session.v4.jsonl",
        raw(lines),
    )
    lines = [header(".."), row(0)]
    put(tmp_path / "_no-cwd/~002E~002E/session.v4.jsonl.zstd", zstd(lines))
    found = scan(tmp_path)
    assert ids(found) == ["sess:~1/ü 🙂", ".."]
    assert codes(found) == ["mixed-encoding"]


def test_of_two_encodings_the_roots_own_is_read(tmp_path: Path) -> None:
    session(tmp_path, "one", file="session.v4.jsonl.zstd")
    both = session(tmp_path, "two", file="session.v4.jsonl.zstd")
    session(tmp_path, "two", file="session.v4.jsonl")
    found = scan(tmp_path)
    assert [entry.path for entry in found.sessions if entry.session == "two"] == [both]
    assert codes(found) == ["mixed-encoding"]


def test_a_flat_file_is_reported_and_not_read(tmp_path: Path) -> None:
    session(tmp_path, "one")
    put(tmp_path / "--b--" / "three.jsonl", raw(turns()))
    found = scan(tmp_path)
    assert ids(found) == ["one"]
    assert codes(found) == ["flat-file"]


@pytest.mark.parametrize(
    ("first", "code", "name"),
    [
        (header("other", cwd="/b"), "header-id", "other"),
        (header("one", cwd="/c"), "header-cwd", "one"),
        (header("one", version=3, cwd="/b"), "header-version", "one"),
        (row(0), "header-missing", "one"),
    ],
)
def test_a_header_that_does_not_lead_back_is_read_and_reported(
    tmp_path: Path, first: bytes, code: str, name: str
) -> None:
    path = put(tmp_path / "--b--" / "one" / "session.v4.jsonl", raw([first, row(0)]))
    found = scan(tmp_path)
    assert [(entry.session, entry.path) for entry in found.sessions] == [(name, path)]
    assert [(problem.code, problem.path, problem.fatal) for problem in found.problems] == [
        (code, path, True)
    ]


def test_of_two_files_with_one_id_the_one_in_its_place_is_read(tmp_path: Path) -> None:
    stray = put(tmp_path / "--a--" / "one" / "session.v4.jsonl", raw(turns(1, session="one")))
    right = session(tmp_path, "one")
    found = scan(tmp_path)
    assert [entry.path for entry in found.sessions] == [right]
    assert codes(found) == ["header-cwd", "duplicate-id"]
    assert {problem.path for problem in found.problems} == {stray}


def test_a_directory_in_a_transcripts_place_hides_the_older_generations(tmp_path: Path) -> None:
    session(tmp_path, "one", file="session.jsonl")
    put(tmp_path / "--b--" / "one" / "session.v4.jsonl" / "keep", b"")
    found = scan(tmp_path)
    assert ids(found) == ["one"]
    assert found.sessions[0].path.name == "session.v4.jsonl"
    assert codes(found) == ["unreadable"]
    assert [damage.code for damage in damages(found)] == ["unreadable"]


def damages(found: Scan) -> list[Damage]:
    log = open_log(found.sessions[0].path)
    assert list(log.lines) == []
    return log.damage


def test_what_cannot_be_read_is_reported_and_never_waited_for(tmp_path: Path) -> None:
    loop = session(tmp_path, "one")
    loop.unlink()
    loop.symlink_to(loop)
    pipe = session(tmp_path, "two")
    pipe.unlink()
    os.mkfifo(pipe)
    found = scan(tmp_path)
    assert ids(found) == ["one", "two"]
    assert [(problem.code, problem.path) for problem in found.problems] == [
        ("unreadable", loop),
        ("unreadable", pipe),
    ]


def test_a_name_the_harness_never_gives(tmp_path: Path) -> None:
    put(tmp_path / "--b--" / "a b" / "session.v4.jsonl", raw([row(0)]))
    found = scan(tmp_path)
    assert ids(found) == ["a b"]
    assert codes(found) == ["bad-name", "header-missing"]


def test_a_project_and_a_session_directory_alone(tmp_path: Path) -> None:
    path = session(tmp_path, "one")
    put(path.parent / "attachments" / "session.v7.jsonl", raw([row(0)]))
    for root in (tmp_path, tmp_path / "--b--", tmp_path / "--b--" / "one"):
        found = scan(root)
        assert (found.harness, ids(found), found.problems) == (True, ["one"], ())


def test_any_other_folder_is_searched_for_logs(tmp_path: Path) -> None:
    put(tmp_path / "a" / "log.jsonl", raw([row(0)]))
    put(tmp_path / "b" / "log.jsonl.zstd", zstd([header("mine"), row(0)]))
    put(tmp_path / "c" / "deep" / "session.jsonl", raw([header("old", 0)]))
    newest = put(tmp_path / "c" / "deep" / "session.v3.jsonl", raw([header("new", 3)]))
    put(tmp_path / "c" / "notes.txt", b"")
    put(tmp_path / "c" / "surface.json", b"{}")
    found = scan(tmp_path)
    assert not found.harness
    assert ids(found) == ["a", "mine", "new"]
    assert found.sessions[2].path == newest
    assert found.problems == ()


def test_several_files_without_header_in_one_folder_have_their_stems_as_ids(
    tmp_path: Path,
) -> None:
    first = put(tmp_path / "a" / "1.jsonl", raw([row(0)]))
    put(tmp_path / "a" / "2.jsonl.zstd", zstd([row(0)]))
    put(tmp_path / "a" / "3.jsonl", raw([header("mine"), row(0)]))
    put(tmp_path / "b" / "1.jsonl", raw([row(0)]))
    found = scan(tmp_path)
    assert (ids(found), codes(found)) == (["1", "2", "mine", "b"], [])
    assert [entry.session for entry in scan(first).sessions] == ["1"]
    named = put(tmp_path / "a" / "4.jsonl", raw([header("a"), row(0)]))
    assert [entry.session for entry in scan(named).sessions] == ["a"]
    named.unlink()
    put(tmp_path / "b" / "x.jsonl", raw([row(0)]))
    found = scan(tmp_path)
    assert (sorted(ids(found)), codes(found)) == (["1", "2", "mine", "x"], ["duplicate-id"])
    assert str(first) in found.problems[0].message


def test_logs_outside_of_the_layout_are_named(tmp_path: Path) -> None:
    path = session(tmp_path, "one")
    strays = [
        put(tmp_path / "flat.jsonl", raw(turns())),
        put(tmp_path / "old" / "deep" / "x.jsonl.zstd", zstd(turns())),
        put(path.parent / "copy.jsonl", raw(turns())),
    ]
    found = scan(tmp_path)
    assert ids(found) == ["one"]
    assert codes(found) == ["stray-file"] * 3
    assert {problem.path for problem in found.problems} == set(strays)
    assert not any(problem.fatal for problem in found.problems)


def test_one_file(tmp_path: Path) -> None:
    path = put(tmp_path / "a" / "x.jsonl", raw([row(0)]))
    assert scan(path).sessions == (Found("a", path, "raw"),)


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    found = scan(tmp_path / "none")
    assert (found.sessions, codes(found)) == ((), ["unreadable"])
    assert str(tmp_path / "none") in found.problems[0].message


def test_an_empty_folder(tmp_path: Path) -> None:
    assert scan(tmp_path) == Scan(tmp_path, False, (), ())


def test_a_file_that_cannot_be_read_keeps_no_good_one_out(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").symlink_to(tmp_path / "gone")
    (folder / "b.jsonl").write_bytes(b'{"type":"turn/start","seq":0,"time":0,"data":{"turn":1}}\n')
    found = scan(folder)
    assert [session.path.name for session in found.sessions] == ["b.jsonl"]
    assert "unreadable" in [problem.code for problem in found.problems]
