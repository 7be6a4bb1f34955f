"""A statement of reasons held to the register's own rules: a fault is told by field, value and way out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tribunal.core.text import parse_toml
from tribunal.errors import BadInput
from tribunal.explanations.notices import example_mapping, read_mapping
from tribunal.prompts.policy import load_policy
from tribunal.review.statements import StatementRequest, category_explanation, statement_of

ROW: dict[str, Any] = {
    "id": "case-1", "category": "Racist", "created": 1.7e9, "finished": 1.7e9, "erased": None, "fields": None,
    "post": {"text": "post-words"}, "record": {"explanation": "e", "policy": {"name": "h-vli"}, "hateful": True},
}  # fmt: skip


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("--visibility", "decision_visibility: what was done is missing"),
        ("decision_ground", "decision_ground: is missing"),
        ("incompatible_content_ground", "incompatible_content_ground: is missing"),
        ("source_type", "source_type: is missing"),
        ("automated_detection", "automated_detection: is missing"),
        ("territorial_scope", "territorial_scope: is missing"),
        ("content_date", "content_date: is missing"),
    ],
)
def test_what_cannot_be_known_is_refused_where_it_is_missing(left_out: str, said: str) -> None:
    held = parse_toml(example_mapping())["all"]
    held.pop("decision_visibility" if left_out == "--visibility" else left_out)
    with pytest.raises(BadInput, match=re.escape(said)):
        statement_of(ROW, StatementRequest(read_mapping(None, held)), None)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("category_specification", ["KEYWORD_HATE"], "category_specification.0: 'KEYWORD_HATE'"),
        ("decision_account", "SUSPENDED", "decision_account: 'SUSPENDED'"),
        ("content_language", "XX", "content_language: 'XX'"),
        ("territorial_scope", ["UK"], "territorial_scope.0: 'UK'"),
        ("incompatible_content_ground", "x" * 501, "at most 500 characters"),
        ("decision_facts", "x" * 5001, "at most 5000 characters"),
        ("decision_ground_reference_url", "terms", "decision_ground_reference_url: 'terms'"),
        ("end_date_visibility_restriction", "2020-01-01", "is before the application date"),
        ("content_type_other", "a poem", "content_type_other: doesn't belong"),
        (
            "decision_visibility",
            ["DECISION_VISIBILITY_OTHER"],
            "decision_visibility_other: is missing",
        ),
    ],
)
def test_what_the_register_would_refuse_is_refused_by_field_and_value(
    field: str, value: Any, said: str
) -> None:
    held = parse_toml(example_mapping())["all"]
    with pytest.raises(BadInput, match=re.escape(said)) as refused:
        statement_of(ROW, StatementRequest(read_mapping(None, {**held, field: value})), None)
    assert "tribunal dsa statements --example-mapping" in str(refused.value), "the way out"


def test_a_category_that_is_not_hate_is_stated_as_what_it_is() -> None:
    row = {**ROW, "category": "Toxic", "record": {**ROW["record"], "hateful": False}}
    held = parse_toml(example_mapping())["all"]
    made = statement_of(row, StatementRequest(read_mapping(None, held)), None)
    assert (made.category, made.category_specification) == (
        "STATEMENT_CATEGORY_OTHER_VIOLATION_TC",
        None,
    )
    assert "falls under the category Toxic" in made.decision_facts
    assert "hate" not in made.decision_facts + str(made.incompatible_content_explanation)
    del held["incompatible_content_ground"]
    law = {
        "decision_ground": "DECISION_GROUND_ILLEGAL_CONTENT",
        "illegal_content_legal_ground": "A law",
    }
    with pytest.raises(
        BadInput, match=r"case-1 \(Toxic\): category: is missing; set it in the mapping"
    ):
        statement_of(row, StatementRequest(read_mapping(None, {**held, **law})), None)


def test_the_clauses_that_a_verdict_cites_are_stated() -> None:
    record = {**ROW["record"], "scheme": "fine", "clauses": ["1.1", "1.2"]}
    said = category_explanation({**ROW, "record": record}, load_policy("h-vli"))
    assert (
        "category Racist of the rules (clauses 1.1, 1.2), which is: An attack on people because of race"
        in said
    )
    assert said.endswith("because of sex or gender.")
