"""What the researcher and its judge are asked: roles, and the forms of their answers (paper, Appendices C to E)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from tribunal.models.role import Role
from tribunal.nodes.forms import Form, always, one_of


class QueriesForm(Form):
    """Search queries."""

    queries: list[str]


class UrlsForm(Form):
    """Pages named from memory."""

    urls: list[str]


class RelevanceForm(Form):
    """The hits that are worth reading, by number."""

    relevant: list[int]


class PassageForm(Form):
    """One passage."""

    passage: str = Field(min_length=1)
    stance: str


class PassagesForm(Form):
    """What a window holds."""

    passages: list[PassageForm]


class WeighForm(Form):
    """The judgement after a page."""

    judgement: str
    reasoning: str = Field(min_length=1)


class EnoughForm(Form):
    """Whether to go on."""

    sufficient: bool
    missing: str


class StepForm(Form):
    """One step of the rationale."""

    claim: str = Field(min_length=1)
    evidence: list[str]


class VerdictForm(Form):
    """The final judgement."""

    label: str
    confidence: float = Field(ge=0, le=1)
    steps: list[StepForm] = Field(min_length=1)


class WordsForm(Form):
    """The baseline's answer in words."""

    hateful: bool
    reason: str


_PASSAGE = create_model("Passage", __base__=PassageForm, stance=(one_of(("supports", "refutes")), ...))
_PASSAGES = create_model("Passages", __base__=PassagesForm, passages=(list[_PASSAGE], ...))
_WEIGHING = create_model("Weighing", __base__=WeighForm, judgement=(one_of(("hate", "non-hate", "undecided")), ...))
_FINDING = create_model("Finding", __base__=VerdictForm, label=(one_of(("HATE", "NON-HATE")), ...))


def _researcher(name: str, form: type[Any]) -> Role[Any]:
    return Role(
        name=f"researcher.{name}", seat="researcher", prompt=f"antihate/{name}", form=always(form), temperature=None
    )


QUERIES = _researcher("queries", QueriesForm)
URLS = _researcher("urls", UrlsForm)
RELEVANCE = _researcher("relevance", RelevanceForm)
PASSAGES = _researcher("passages", _PASSAGES)
WEIGH = _researcher("weigh", _WEIGHING)
ENOUGH = _researcher("enough", EnoughForm)
VERDICT = Role(
    name="judge.evidence",
    seat="judge",
    prompt="antihate/verdict",
    form=always(_FINDING),
    temperature=None,
    falls_to="judge_model",
    final=True,
)


def read_words(text: str) -> WordsForm:
    """The baseline's answer, in its two forms.

    Raises:
        ValueError: it is in neither.
    """
    said = text.strip().strip("*_`\"' ")
    for opening, hateful in (("not hate speech", False), ("hate speech", True)):
        if said.casefold().startswith(opening):
            colon, reason = said[len(opening) :].strip()[:1], said[len(opening) :].strip().lstrip(":").strip(" []")
            if colon == ":" and reason:
                return WordsForm(hateful=hateful, reason=reason)
    raise ValueError("the answer is neither `hate speech: [reason]` nor `not hate speech: [reason]`")


ZERO_SHOT = Role(
    name="classifier.words",
    seat="classifier",
    prompt="antihate/baseline",
    form=always(WordsForm),
    temperature=None,
    falls_to="judge_model",
    system="plain",
    final=True,
    plain=read_words,
    max_output_tokens=200,
    tries=3,
)
