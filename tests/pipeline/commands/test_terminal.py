"""Progress and words: what a terminal gets, what a pipe gets, and on which stream."""

import io

import pytest
from msgspec.structs import replace

from pipeline.commands import terminal as module
from pipeline.commands.checking import sentence
from pipeline.commands.letter_pages import letter_line
from pipeline.commands.terminal import PLAIN_EVERY_S, Terminal
from pipeline.deadletter import Listed
from pipeline.ports import InRecord
from pipeline.proof.records import Mismatch
from pipeline.verify import Verdict
from schemas.deadletter import DeadLetter


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Time:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(module, "time", made)
    return made


def test_without_a_terminal_progress_is_a_line_now_and_then(
    clock: Time, capsys: pytest.CaptureFixture[str]
) -> None:
    with Terminal().progress("fold", "records", 40) as step:
        for done in range(1, 31):
            clock.now += PLAIN_EVERY_S / 10
            step(done)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "fold: 10 of 40 records",
        "fold: 20 of 40 records",
        "fold: 30 of 40 records",
        "fold: 30 records in 6.0 s",
    ]


def test_a_terminal_gets_a_bar_and_the_same_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Terminal().progress("fold", "records", 3) as step:
        step(2, 4)
        step(4)
    shown = screen.getvalue()
    assert "fold: 4 records in " in shown.splitlines()[-1]
    assert "4/4" in shown


def test_what_is_quoted_is_shown_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().say("no such file: a\x1b[2J\nb")
    assert capsys.readouterr().err == "no such file: a␛[2J␊b\n"


def test_data_and_text_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.text("one")
    terminal.data(b'{"two":2}', b"{}")
    terminal.text("three")
    assert capsys.readouterr().out == 'one\n{"two":2}\n{}\nthree\n'


def test_a_verdict_names_the_first_difference_or_what_was_proven() -> None:
    mismatch = Mismatch("t.surface", 2, 7, "s\x1b", "s", 9, "differs", "type", "'a'", "'b'")
    wrong = Verdict(differing=2, differences=(mismatch,))
    assert sentence(wrong) == (
        "verify: FAILED: 2 differ, first t.surface[2] at offset 7: session 's\\x1b', key 's', "
        "seq 9: differs: type is 'a', the fold gives 'b'"
    )
    proof = Verdict(sessions=3, events=40, surface=5, rows=6, dead_letters=1)
    right = replace(proof, behind=2, unprovable_count=2, unprovable=("old", "older"))
    proven = "3 sessions, 5 surface changes, 6 rows, 1 dead letters from 40 events"
    assert sentence(right) == (
        f"verify: ok ({proven}); 2 events not folded yet; 2 sessions unprovable, e.g. old, older"
    )
    moving = replace(proof, undecided_count=1, undecided=("hot",))
    assert sentence(moving) == (
        f"verify: UNDECIDED ({proven}); 1 sessions undecided within --rounds, e.g. hot"
    )


def test_a_dead_letter_is_one_plain_line() -> None:
    letter = DeadLetter("not-json", "bad\nthing", "e", 1, 5, 0, "s\u202e", None, b"s", b"{")
    record = InRecord("d", 0, 3, 0, None, None)
    line = letter_line(Listed(record, letter))
    assert line.split() == ["not-json", "e/1/5", "s<U+202E>", "seq", "-", "bad␊thing"]
    assert letter_line(Listed(record, None)) == "d/0/3: not a dead letter of ours"
