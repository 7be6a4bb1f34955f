"""One picture of a case: what is added to its details shows in the terminal, the page, the desk, samples.html, the
notebook and the letter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from html import unescape

import pytest
from typer.testing import CliRunner

import tribunal
from tests.result_lines import line
from tests.service.at_desk import ALL, post, signed_in
from tests.service.conftest import serving
from tribunal.commands import app
from tribunal.eval.report.samples import draw_sample
from tribunal.explanations import author_letter, view_maker
from tribunal.explanations.author_letter import write_letter
from tribunal.explanations.case_drawing import TO_AUTHORS, draw_markdown, draw_page
from tribunal.explanations.view_maker import CaseAtHand, view_case
from tribunal.schema import Record

NAME, VALUE = "Docket colour", "vermilion <b>&"
TEXT = "Immigrants: the weeds in our garden."


@pytest.fixture
def one_field_more(monkeypatch: pytest.MonkeyPatch) -> None:
    details = view_maker.case_details

    def with_one_more(record: Record, case: str | None) -> Iterator[tuple[str, str]]:
        yield from details(record, case)
        yield NAME, VALUE

    monkeypatch.setattr(view_maker, "case_details", with_one_more)
    monkeypatch.setattr(author_letter, "case_details", with_one_more)
    monkeypatch.setattr(author_letter, "TO_AUTHORS", TO_AUTHORS | {NAME})


@pytest.mark.usefixtures("one_field_more")
async def test_a_field_that_is_added_shows_in_all_six(sqlite: str) -> None:
    terminal = await asyncio.to_thread(
        CliRunner().invoke, app, ["judge", TEXT], env={"COLUMNS": "200"}
    )
    record = await tribunal.ajudge(TEXT, graph="arcade")
    view, letter = (
        view_case(record, post=TEXT),
        await write_letter(CaseAtHand(record, {"text": TEXT})),
    )
    sample = {**line("a", 1, 1), **record.dump()}
    async with serving(sqlite, **ALL) as client:
        case = await post(client, TEXT, post_id="p-1")
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        desk = (await kim.get(f"/desk/cases/{case['id']}")).response.text
    pictures = {
        "terminal": terminal.stdout, "page": draw_page(view), "desk": desk, "samples": str(draw_sample(sample)),
        "notebook": record._repr_html_(), "letter": draw_page(letter),
    }  # fmt: skip
    for name, picture in pictures.items():
        assert NAME in picture, name
        assert VALUE in unescape(picture), name
        assert name == "terminal" or VALUE not in picture, "escaped"
    for picture in (draw_markdown(view), draw_markdown(letter)):
        assert f"{NAME}: vermilion \\<b\\>\\&" in picture
