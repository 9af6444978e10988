"""Which logs changed: seen at the next look, without listing what did not change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import watching
from pipeline.watching import Seen, Watch

NOTHING = Seen(others=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        folder = tmp_path / "--p--" / name
        folder.mkdir(parents=True)
        (folder / "session.v4.jsonl").write_bytes(b"{}\n")
    return tmp_path


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are listed, which all changed long ago."""
    found: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        found.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr("pipeline.watching.os.scandir", counted)
    monkeypatch.setattr(watching, "COARSE_NS", -(10**18))
    return found


def test_a_look_sees_what_came_what_went_and_what_grew(root: Path) -> None:
    watch = Watch([root])
    one = root / "--p--" / "a" / "session.v4.jsonl"
    assert (watch.look().others, watch.look()) == (True, NOTHING)
    with one.open("ab") as file:
        file.write(b"{}\n")
    assert watch.look() == Seen(False, (str(one),))
    (one.parent / "session.v5.jsonl.zstd").write_bytes(b"")
    assert watch.look().others
    (one.parent / "notes.txt").write_bytes(b"")
    (root / "empty").mkdir()
    assert watch.look() == NOTHING
    one.unlink()
    assert watch.look().others


@pytest.mark.parametrize("how", ["shorter", "replaced"])
def test_a_file_that_is_another_one_now_is_no_growth(root: Path, how: str) -> None:
    watch = Watch([root])
    watch.look()
    one = root / "--p--" / "b" / "session.v4.jsonl"
    if how == "shorter":
        one.write_bytes(b"{\n")
    else:
        new = root / "new"
        new.write_bytes(b"{} more\n")
        new.replace(one)
    assert watch.look().others


def test_folders_that_did_not_change_are_not_listed_again(root: Path, listed: list[str]) -> None:
    watch = Watch([root])
    watch.look()
    assert sorted(listed[1:]) == ["--p--", "a", "b"]
    listed.clear()
    (root / "--p--" / "a" / "session.v4.jsonl").write_bytes(b"{}\n{}\n")
    assert watch.look().grown
    assert listed == []
    (root / "--p--" / "b" / "two.jsonl").write_bytes(b"")
    assert watch.look().others
    assert listed == ["b"]


def test_a_folder_that_just_changed_is_listed_again_and_all_are_now_and_then(
    root: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch([root])
    monkeypatch.setattr(watching, "COARSE_NS", 10**18)
    watch.look()
    listed.clear()
    watch.look()
    assert len(listed) == 4
    monkeypatch.setattr(watching, "COARSE_NS", -(10**18))
    monkeypatch.setattr(watching, "LIST_EVERY", 4)
    watch.look()
    listed.clear()
    watch.look()
    assert listed == []
    watch.look()
    assert len(listed) == 4


def test_roots_may_be_files_and_may_be_gone(root: Path) -> None:
    one = root / "--p--" / "a" / "session.v4.jsonl"
    watch = Watch([one, root / "nowhere", one.parent])
    watch.look()
    one.write_bytes(b"{}\n{}\n")
    assert watch.look() == Seen(False, (str(one),))


def test_paths_are_told_as_the_scan_tells_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    watch = Watch([Path()])
    watch.look()
    one = Path("--p--", "a", "session.v4.jsonl")
    one.write_bytes(b"{}\n{}\n")
    assert watch.look().grown == (str(one),)


def test_a_folder_that_may_not_be_read_is_empty(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: str) -> object:
        raise PermissionError(13, "no")

    monkeypatch.setattr("pipeline.watching.os.scandir", refused)
    watch = Watch([root])
    assert watch.look().others
    assert watch.look() == NOTHING
