"""What lies here of others is what they published (deploy/decisions/2026-11-30-web-page.md)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from pipeline.gateway.page import STATIC

AXE = Path(__file__).parent / "vendor" / "axe.min.js"  # axe-core 4.14.1

LIT = {  # lit-html 3.3.3
    "LICENSE": "2b66f9390afde29edfe4314daff93f01fb182e1178053e228120178987e5db75",
    "lit-html.js": "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2",
    "directive.js": "3344c4f41c69cd0701d3937e8f9ef90bd845614bf6456d0b8314b7c51d415b9d",
    "directive-helpers.js": "f7fb1154b8f72ed2cc08b05eaeed71c99270e9ad2d48620ed24688a1af4c2b62",
    "directives/guard.js": "8534c98865e29fb6c0c03acb1948ef6597f17ffe2c8ebfda4f153bfb8f79e215",
    "directives/repeat.js": "083140026ecd8665fedd15b17769f9d516252a9f1502f1e91e6967686ee82626",
}


def test_lit_html_is_as_published() -> None:
    folder = STATIC / "vendor" / "lit-html"
    found = {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == LIT


def test_axe_is_as_published() -> None:
    published = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
    assert sha256(AXE.read_bytes()).hexdigest() == published


@pytest.mark.parametrize("path", sorted(STATIC.glob("js/*.js")), ids=lambda path: path.name)
def test_no_script_makes_markup_or_code_out_of_text(path: Path) -> None:
    """Text becomes text nodes: nothing here could do anything else with it."""
    source = path.read_text("utf-8")
    names = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "unsafe", "eval(")
    assert [name for name in (*names, "new Function", "srcdoc", "style=") if name in source] == []
    assert len(source.splitlines()) <= 350


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert "<style" not in page
    assert " style=" not in page
    assert page.count("<script") == page.count('<script type="module" src="/static/') == 1
