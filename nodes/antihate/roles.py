"""The roles of the researcher and its judge, and the forms of their answers (paper, Appendices C to E)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, create_model

from tribunal.exhibit import EvidenceStance
from tribunal.models.role import Role
from tribunal.nodes.forms import (
    CLAIM,
    GROUP,
    REASON,
    SURE,
    Form,
    offer_names,
    one_of,
    same_form,
    text_bounds,
)

LEAST_QUERIES = 3
MOST_QUERIES = 5
LONGEST_QUERY = 300
MOST_URLS = 10


def list_bounds(most: int, least: int = 0) -> Any:
    """Return the bounds of a list's length, sent to the server only: the answer is counted where it is used."""
    return Field(
        json_schema_extra={"minItems": least, "maxItems": most} if least else {"maxItems": most}
    )


class PlanForm(Form):
    """The thoughts before a search, and the facts to verify. Older archives have none."""

    thought: Annotated[str, text_bounds(REASON)] = ""
    entities: Annotated[list[Annotated[str, text_bounds(GROUP)]], list_bounds(10)] = Field(
        default_factory=list
    )
    claims: Annotated[list[Annotated[str, text_bounds(CLAIM)]], list_bounds(10)] = Field(
        default_factory=list
    )


class QueriesForm(PlanForm):
    """Search queries."""

    queries: Annotated[
        list[Annotated[str, text_bounds(LONGEST_QUERY)]], list_bounds(MOST_QUERIES, LEAST_QUERIES)
    ]


class UrlsForm(PlanForm):
    """Pages named from memory."""

    urls: Annotated[list[Annotated[str, text_bounds(CLAIM)]], list_bounds(MOST_URLS, LEAST_QUERIES)]


class RelevanceForm(Form):
    """The hits that are worth reading, by number."""

    relevant: list[int]


class PassageForm(Form):
    """One passage."""

    passage: Annotated[str, text_bounds(REASON, least=1)]
    stance: str


class PassagesForm(Form):
    """The passages of a window."""

    passages: list[PassageForm]


class WeighForm(Form):
    """The judgement after a page."""

    reasoning: Annotated[str, text_bounds(REASON, least=1)]
    judgement: str


class EnoughForm(Form):
    """Whether to go on."""

    missing: Annotated[str, text_bounds(CLAIM)]
    sufficient: bool


class StepForm(Form):
    """One step of the rationale."""

    claim: Annotated[str, text_bounds(CLAIM, least=1)]
    evidence: list[str]


class VerdictForm(Form):
    """The final judgement."""

    steps: list[StepForm]
    label: str
    confidence: SURE


class WordsForm(Form):
    """The baseline's answer in words."""

    hateful: bool
    reason: str


_PASSAGE = create_model(
    "Passage",
    __base__=PassageForm,
    stance=(one_of(tuple(each.value for each in EvidenceStance)), ...),
)
_PASSAGES = create_model(
    "Passages", __base__=PassagesForm, passages=(Annotated[list[_PASSAGE], list_bounds(10)], ...)
)
_WEIGHING = create_model(
    "Weighing", __base__=WeighForm, judgement=(one_of(("hate", "non-hate", "undecided")), ...)
)


@lru_cache(maxsize=64)
def relevance_form(hits: int) -> type[RelevanceForm]:
    """Return the form of a choice among so many hits, by their numbers from 1."""
    # Any other number is looked at by the answer's mender.
    number: Any = Annotated[int, Field(json_schema_extra={"enum": list(range(1, hits + 1))})]
    numbers: Any = Annotated[list[number], list_bounds(hits)]
    return create_model("Relevance", __base__=RelevanceForm, relevant=(numbers, ...))


@lru_cache(maxsize=256)
def verdict_form(ids: tuple[str, ...]) -> type[VerdictForm]:
    """Return the form of a verdict whose steps cite evidence by these ids; an empty list, where there are none."""
    known: Any = offer_names(ids)
    cited: Any = Annotated[list[known], list_bounds(len(ids))]
    step: Any = create_model("Step", __base__=StepForm, evidence=(cited, ...))
    steps: Any = Annotated[list[step], Field(min_length=1, json_schema_extra={"maxItems": 10})]
    label = one_of(("HATE", "NON-HATE"))
    return create_model("Finding", __base__=VerdictForm, steps=(steps, ...), label=(label, ...))


def _researcher_role(name: str, form: type[Any]) -> Role[Any]:
    return Role(
        f"researcher.{name}",
        "researcher",
        f"antihate/{name}",
        same_form(form),
        None,
        system="research",
    )


QUERIES = _researcher_role("queries", QueriesForm)
URLS = _researcher_role("urls", UrlsForm)
RELEVANCE = _researcher_role("relevance", RelevanceForm)
PASSAGES = _researcher_role("passages", _PASSAGES)
WEIGH = _researcher_role("weigh", _WEIGHING)
ENOUGH = _researcher_role("enough", EnoughForm)
# One agent does it all in the paper: a temperature that is set for the researcher is the verdict's and the baseline's
# too (Figure 3).
VERDICT = Role(
    "judge.evidence",
    "judge",
    "antihate/verdict",
    same_form(VerdictForm),
    None,
    temperature_of="researcher",
    falls_to="judge_model",
    system="research",
    final=True,
)


def parse_zero_shot(text: str) -> WordsForm:
    """Return the baseline's answer, in its two forms.

    Raises:
        ValueError: it is in neither.
    """
    said = re.fullmatch(
        r"(not )?hate speech\s*:+(.*)", text.strip("*_`\"' \n\t"), re.IGNORECASE | re.DOTALL
    )
    if said and (reason := said[2].strip(" []\n\t")):
        return WordsForm(hateful=not said[1], reason=reason)
    raise ValueError(
        "the answer is neither `hate speech: [reason]` nor `not hate speech: [reason]`"
    )


ZERO_SHOT = Role(
    "classifier.words",
    "classifier",
    "antihate/baseline",
    same_form(WordsForm),
    None,
    temperature_of="researcher",
    falls_to="judge_model",
    system="plain",
    final=True,
    plain=parse_zero_shot,
    max_output_tokens=200,
    may_be_cut=True,
    tries=3,
)
