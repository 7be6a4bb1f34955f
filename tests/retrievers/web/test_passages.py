"""Finding what was quoted in the text it was quoted from."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archived import a_page
from tribunal.retrievers.web.page_reader import find_passage, is_mark


@pytest.mark.parametrize(
    ("text", "passage", "found"),
    [
        ("He said it twice.", "said it", "said it"),
        ("He said\n\n  it twice.", "said it", "said\n\n  it"),
        ("He said it twice.", "  said\nit ", "said it"),
        ("He said\u00a0it.", "said it", "said\u00a0it"),
        ("He said “it’s so”.", 'said "it\'s so"', "said “it’s so”"),
        ('He said "it\'s so".', "“it’s so”", '"it\'s so"'),
        ("Er sagt „so“ und «so».", '"so" und "so"', "„so“ und «so»"),
        ("naïve, said he", "nai\u0308ve", "naïve"),
        ("말이 많다", unicodedata.normalize("NFD", "말이 많다"), "말이 많다"),
        ("a.c a+c", "a+c", "a+c"),
        ("He said it twice.", "said him", None),
        ("He said it twice.", "Said it", None),
        ("He said it twice.", "said it … twice", None),
        ("He said it twice.", "sa id it", None),
        ("He saidit.", "said it", None),
        ("anything", "", None),
        ("anything", " \n ", None),
        ("", "anything", None),
    ],
)
def test_passages(text: str, passage: str, found: str | None) -> None:
    span = find_passage(text, passage)
    assert (None if span is None else text[slice(*span)]) == found


@pytest.mark.parametrize(
    ("written", "passage"),
    [
        ("nai\u0308ve, said he", "naïve, said"),
        (unicodedata.normalize("NFD", "그 말이 많다"), "말이"),
    ],
)
def test_a_passage_is_found_in_a_page_whatever_form_the_page_was_written_in(
    written: str, passage: str
) -> None:
    text = a_page(text=written).text
    span = find_passage(text, passage)
    assert span is not None
    assert text[slice(*span)] == passage


def test_a_passage_is_not_found_in_a_character_with_more_marks() -> None:
    assert find_passage("\u00e1\u0301 \u00e1", "\u00e1") == (3, 4)


@given(
    st.text(st.sampled_from("aé\u0301\u0308 \n가ᄀ\u1161\u11a8\u0bc6\u0bbe'’\"“"), max_size=60),
    st.data(),
)
def test_whatever_stands_in_a_text_is_found_there(text: str, data: st.DataObject) -> None:
    text = unicodedata.normalize("NFC", text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    passage = text[start:end]
    if any(is_mark(text[i]) for i in {start, end} - {len(text)}) or not passage.strip():
        return  # a cut through the middle of a character, or nothing to find
    span = find_passage(text, " ".join(passage.split()).replace("“", '"').replace("’", "'"))
    assert span is not None
    plain = str.maketrans("“’", "\"'")
    found = unicodedata.normalize("NFC", text[slice(*span)]).translate(plain)
    assert found.split() == unicodedata.normalize("NFC", passage).translate(plain).split()


@pytest.mark.timeout(60)  # it takes a second, or hours
def test_a_passage_is_sought_in_time_that_grows_with_the_text() -> None:
    assert find_passage("a " * 300_000, "a " * 50 + "b") is None
    assert find_passage(" " * 300_000 + "a", "b a") is None
