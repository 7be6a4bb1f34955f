"""Clauses of the policy that an answer cites: known by their ids, and struck out where the policy has none such."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from tribunal.errors import BadInput
from tribunal.nodes.forms import Mend, chain_menders, mend_percent
from tribunal.prompts.policy import Policy


def cited_clauses(decision: BaseModel) -> tuple[str, ...]:
    """Return the ids of the clauses that a decision cites; none where they weren't asked for."""
    return tuple(getattr(decision, "clauses", ()))


def keep_known_clauses(policy: Policy, cited: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the clauses that are cited, each once and as the policy spells it, and what is no clause."""
    spelt = {_bare_id(each.id): each.id for each in policy.clauses}
    known = dict.fromkeys(spelt[_bare_id(each)] for each in cited if _bare_id(each) in spelt)
    return list(known), [each for each in cited if _bare_id(each) not in spelt]


def clause_list(given: Any) -> Any:
    """Return the ids that a person named, in a list or in a text with commas between them."""
    return [each.strip() for each in given.split(",") if each.strip()] if isinstance(given, str) else given or ()


def named_clauses(policy: Policy, given: Sequence[str]) -> tuple[str, ...]:
    """Return the clauses that a person names, each once.

    Raises:
        BadInput: the policy has no such clause.
    """
    known, unknown = keep_known_clauses(policy, given)
    if unknown:
        ids = ", ".join(each.id for each in policy.clauses)
        way_out = f"they are {ids}" if ids else "it numbers none, so leave them out"
        raise BadInput(f"clauses: {unknown[0][:80]!r}: is none of the policy {policy.name}; {way_out}")
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
            said = "clauses that the policy doesn't have; they were" if unknown[1:] else "which is no clause; that was"
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
    """Return a mender of a decision: clauses are held to the policy, and a confidence in percent is taken as a part."""
    return chain_menders(strike_unknown_clauses(policy, who), mend_percent)


def _bare_id(cited: str) -> str:
    """Return an id however it is written: [2.1], § 2.1, clause 2.1."""
    plain = unicodedata.normalize("NFKC", cited).strip(" []()§.:").casefold()
    return plain.removeprefix("clause").strip(" []()§.:")
