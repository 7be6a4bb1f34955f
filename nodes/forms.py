"""The forms of answers, and the clauses of the policy that they cite."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)

from tribunal.errors import BadInput
from tribunal.prompts.policy import Policy
from tribunal.schema import Scheme

Filled = TypeVar("Filled", bound=BaseModel)
Maker = Callable[[Policy, Scheme], type[Filled]]
# Puts right in an answer what needs no guess; is given the list of warnings to add to. The `mend` of `ask`.
Mend = Callable[[Filled, list[str]], Filled]

# Characters on the wire: a server with grammars stops a model there. What comes back longer is taken.
GROUP = 120
CLAIM = 400
REASON = 1_200
MOST_CLAUSES = 3  # that decide a post

_BEFORE_A_LABEL = ("", "label", "category", "answer", "type", "stance")
_NO_LABEL_NUMBER = re.compile(r"^\W*-\s*\d|\d\.\d")
LEAST_PERCENT = 10  # a number between 1 and this may be out of five or of ten


class Form(BaseModel):
    """The base of what models fill in. Surplus keys are dropped (`read_answer`); a missing one is asked for again."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, defer_build=True)


def text_bounds(most: int, least: int = 0) -> Any:
    """Return a text's bounds: a maximum that is sent to the server only, and a minimum that is always checked."""
    return Field(min_length=least or None, json_schema_extra={"maxLength": most})


def offer_names(names: Sequence[str]) -> Any:
    """Return a text type whose schema offers just these names. Another one is left to the mender of the answer."""
    return Annotated[str, Field(json_schema_extra={"enum": list(names)})] if names else str


Reason = Annotated[str, text_bounds(REASON, least=1)]


class DecisionForm(Form):
    """A decision, and why."""

    explanation: Reason
    category: str


def same_form(form: type[Filled]) -> Callable[[Policy, Scheme], type[Filled]]:
    """Return a function that returns this form for every policy and scheme."""
    return lambda policy, scheme: form


def chain_menders(*menders: Mend[Filled]) -> Mend[Filled]:
    """Return a mender that does what these do, one after the other."""

    def mend(answer: Filled, warnings: list[str]) -> Filled:
        for each in menders:
            answer = each(answer, warnings)
        return answer

    return mend


def one_of(names: Sequence[str], *, numbered: bool = False) -> Any:
    """Return a type of just these strings. Where it is plain which is meant, another spelling is taken for it.

    Capitals, dashes, spaces and full-width letters make no difference, nor does a word such as "label:" before it.

    Args:
        names: the strings.
        numbered: whether a place in the list, from 0, is accepted for its name: 4, "4", "4: Religious".
    """
    read = partial(name_meant, tuple(names), numbered=numbered)
    return Annotated[Literal[tuple(names)], BeforeValidator(read)]


def name_meant(names: tuple[str, ...], value: Any, *, numbered: bool = False) -> Any:
    """Return the name that a value is another spelling of, as in `one_of`; otherwise the value."""
    if numbered and isinstance(value, float) and value.is_integer():
        value = int(value)
    if numbered and type(value) is int:
        return _spellings(names, numbered).get(str(value), value)
    if not isinstance(value, str) or value in names or _NO_LABEL_NUMBER.search(value):
        return value
    return _spellings(names, numbered).get(_spelling(value), value)


@lru_cache(maxsize=256)
def _spellings(names: tuple[str, ...], numbered: bool) -> dict[str, str]:
    """Return the spellings that are taken for a name; none that could be two of them."""
    meant: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    for number, name in enumerate(names):
        plain = _spelling(name)
        own.setdefault(plain, set()).add(name)
        for form in (
            (plain, f"{number}", f"{number}{plain}", f"{plain}{number}") if numbered else (plain,)
        ):
            for before in _BEFORE_A_LABEL:
                meant.setdefault(before + form, set()).add(name)
    # What a name itself is spelt like stands for no other.
    return {form: min(held) for form, held in (meant | own).items() if len(held) == 1}


def _spelling(name: str) -> str:
    return "".join(
        character
        for character in unicodedata.normalize("NFKC", name).casefold()
        if character.isalnum()
    )


def clause_field(policy: Policy) -> dict[str, Any]:
    """Return the field of a cue's form for the clause that it breaks; no field if the policy numbers none."""
    if not policy.clauses:
        return {}
    named: Any = Annotated[
        offer_names([each.id for each in policy.clauses]), BeforeValidator(_as_text)
    ]
    return {"clause": (named, "")}


def clauses_field(policy: Policy) -> dict[str, Any]:
    """Return the field of a decision's form for the clauses that decide it; no field if the policy numbers none."""
    if not policy.clauses:
        return {}
    listed: Any = list[offer_names([each.id for each in policy.clauses])]  # type: ignore[misc]
    bounds: Any = Field(default=[], json_schema_extra={"maxItems": MOST_CLAUSES})
    return {"clauses": (Annotated[listed, BeforeValidator(_as_list)], bounds)}


def _as_text(given: Any) -> Any:
    """Take a clause in a list of one, a number, or nothing for its id."""
    if isinstance(given, list):
        given = given[0] if given else ""
    return "" if given is None else str(given) if isinstance(given, int | float) else given


def _as_list(given: Any) -> Any:
    """Take one clause, or nothing, for a list."""
    listed = given if isinstance(given, list) else [] if given in (None, "") else [given]
    return [_as_text(each) for each in listed]


def citing_form(maker: Maker[Filled]) -> Maker[Filled]:
    """Return a maker of the same form with the clauses that decide it, where the policy numbers some."""

    @lru_cache(maxsize=32)
    def make(policy: Policy, scheme: Scheme) -> type[Filled]:
        form = maker(policy, scheme)
        cited = clauses_field(policy)
        return create_model(form.__name__, __base__=form, **cited) if cited else form

    return make


@lru_cache(maxsize=32)
def decision_form(policy: Policy, scheme: Scheme) -> type[DecisionForm]:
    """Return the form of a decision: a category of the scheme by its name; its number is taken for it."""
    fields: Any = {"category": category_field(policy, scheme), **clauses_field(policy)}
    return create_model("Decision", __base__=DecisionForm, **fields)


def category_field(policy: Policy, scheme: Scheme) -> Any:
    """Return the field of a category of the scheme, by its name; its number is taken for it."""
    return one_of([category.name for category in policy.categories(scheme)], numbered=True), ...


def _read_confidence(value: Any, read: ValidatorFunctionWrapHandler) -> float:
    """Read a confidence: "95 %" as 95, and "5 %", which as a number could be anything, as 0.05."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value) if isinstance(value, str) else None
    if found:
        value = float(found[1]) if float(found[1]) > LEAST_PERCENT else float(found[1]) / 100
    confidence: float = read(value)
    if 0 <= confidence <= 1 or LEAST_PERCENT < confidence <= 100:
        return confidence
    raise ValueError("a confidence is a number from 0 to 1")


SURE: Any = Annotated[
    float, WrapValidator(_read_confidence), Field(json_schema_extra={"minimum": 0, "maximum": 1})
]


@lru_cache(maxsize=32)
def sure_form(maker: Maker[Any]) -> Maker[Any]:
    """Return a maker of the same form with a `confidence`, from 0 to 1. One in percent is left to `mend_percent`."""

    @lru_cache(maxsize=32)
    def make(policy: Policy, scheme: Scheme) -> type[BaseModel]:
        form = maker(policy, scheme)
        return create_model(f"Sure{form.__name__}", __base__=form, confidence=(SURE, ...))

    return make


def mend_percent(decision: Filled, warnings: list[str]) -> Filled:
    """Take a confidence that was given in percent as a part of one, with a warning."""
    given: float | None = getattr(decision, "confidence", None)
    if given is None or given <= 1:
        return decision
    taken = round(given / 100, 4)
    warnings.append(f"a confidence of {given:g} was taken as {taken:g}")
    return decision.model_copy(update={"confidence": taken})


def cited_clauses(decision: BaseModel) -> tuple[str, ...]:
    """Return the ids of the clauses that a decision cites; none where they weren't asked for."""
    return tuple(getattr(decision, "clauses", ()))


def keep_known_clauses(policy: Policy, cited: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the cited clauses, each once and as the policy spells it, and all other citations."""
    spelt = {_bare_id(each.id): each.id for each in policy.clauses}
    known = dict.fromkeys(spelt[_bare_id(each)] for each in cited if _bare_id(each) in spelt)
    return list(known), [each for each in cited if _bare_id(each) not in spelt]


def clause_list(given: Any) -> Any:
    """Return the ids that a person named, in a list or in a text with commas between them."""
    return (
        [each.strip() for each in given.split(",") if each.strip()]
        if isinstance(given, str)
        else given or ()
    )


def named_clauses(policy: Policy, given: Sequence[str]) -> tuple[str, ...]:
    """Return the clauses that a person names, each once.

    Raises:
        BadInput: the policy has no such clause.
    """
    known, unknown = keep_known_clauses(policy, given)
    if unknown:
        ids = ", ".join(each.id for each in policy.clauses)
        way_out = f"they are {ids}" if ids else "it numbers none, so leave them out"
        raise BadInput(
            f"clauses: {unknown[0][:80]!r}: is none of the policy {policy.name}; {way_out}"
        )
    return tuple(known)


def strike_unknown_clauses(policy: Policy, who: str) -> Mend[Any]:
    """Return a mender of cues or of a decision: clauses that the policy doesn't have are struck out, with a warning.

    Args:
        policy: the policy in force.
        who: the seat that answers, for the warnings.
    """

    def strike(cited: Sequence[str], of: str, warnings: list[str]) -> list[str]:
        known, unknown = keep_known_clauses(policy, [each for each in cited if each.strip()])
        if unknown:
            said = (
                "clauses that the policy doesn't have; they were"
                if unknown[1:]
                else "which is no clause; that was"
            )
            warnings.append(f"the {who} cited {', '.join(unknown)}{of}, {said} struck out")
        return known

    def mend(answer: Any, warnings: list[str]) -> Any:
        fields = type(answer).model_fields
        if "clauses" in fields:
            return answer.model_copy(update={"clauses": strike(answer.clauses, "", warnings)})
        if "cues" not in fields:
            return answer
        cues = []
        for number, cue in enumerate(answer.cues, start=1):
            if "clause" in type(cue).model_fields:
                known = strike([cue.clause], f" for C{number}", warnings)
                cue = cue.model_copy(update={"clause": next(iter(known), "")})
            cues.append(cue)
        return answer.model_copy(update={"cues": cues})

    return mend


def mend_decision(policy: Policy, who: str) -> Mend[Any]:
    """Return a function that corrects a decision: it drops unknown clauses, and turns percent into a part."""
    return chain_menders(strike_unknown_clauses(policy, who), mend_percent)


def _bare_id(cited: str) -> str:
    """Return an id however it is written: [2.1], § 2.1, clause 2.1."""
    plain = unicodedata.normalize("NFKC", cited).strip(" []()§.:").casefold()
    return plain.removeprefix("clause").strip(" []()§.:")
