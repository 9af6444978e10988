"""Names in a session root: injective ids, lossy projects, canonical transcripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import Transcript, is_project, project_name, session_id, session_name, transcript

TEXT = st.text(st.characters(exclude_categories=[]), min_size=1)  # lone surrogates too


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("sess:~1/ü 🙂", "sess~003A~007E1~002F~00FC~0020~D83D~DE42"),
        ("..", "~002E~002E"),
        (".", "~002E"),
        ("...", "..."),
        ("a-b_c.9", "a-b_c.9"),
        ("\ud800", "~D800"),
    ],
)
def test_a_session_directory_is_its_id(session: str, name: str) -> None:
    assert session_name(session) == name
    assert session_id(name) == session


@given(session=TEXT)
def test_every_id_comes_back(session: str) -> None:
    assert session_id(session_name(session)) == session


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "~00", "~00fc", "~0041", "ü", "a~"])
def test_a_name_the_harness_never_gives_is_no_id(name: str) -> None:
    assert session_id(name) is None


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        (None, "_no-cwd"),
        ("/", "--root--"),
        ("", "--root--"),
        ("/home/ada/my project (copy)", "--home-ada-my~0020project~0020~0028copy~0029--"),
        ("C:\\Users\\ada", "--C-Users-ada--"),
        ("/a//b:/c", "--a-b-c--"),
        ("/🙂", "--~D83D~DE42--"),
        ("/" + "x" * 300, "--" + "x" * 251 + "--"),
        ("/" + "x" * 249 + " y", "--" + "x" * 249 + "~0--"),
    ],
)
def test_a_project_directory_is_its_working_directory(cwd: str | None, name: str) -> None:
    assert project_name(cwd) == name
    assert is_project(name)


@pytest.mark.parametrize("name", ["--", "----", "-a-", "home", "--a", "a--"])
def test_other_names_are_no_projects(name: str) -> None:
    assert not is_project(name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("session.jsonl", Transcript(0, "raw")),
        ("session.jsonl.zstd", Transcript(0, "zstd")),
        ("session.v12.jsonl", Transcript(12, "raw")),
        ("session.v4.jsonl.zstd", Transcript(4, "zstd")),
        ("session.v0.jsonl", None),
        ("session.v04.jsonl", None),
        ("session.jsonl.0123456789ab.tmp", None),
        ("session.v4.jsonl.bak", None),
        ("session.lock", None),
        ("xsession.jsonl", None),
    ],
)
def test_only_canonical_names_are_transcripts(name: str, kind: Transcript | None) -> None:
    assert transcript(name) == kind
