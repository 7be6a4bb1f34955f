"""Exhibits, as every seat reads them beside the post: passages, perspectives, precedents, a reviewer's question."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tribunal.core.text import one_line
from tribunal.models.prompt_values import SharedPrompt
from tribunal.nodes.forms import Mend
from tribunal.nodes.state import CaseState, opinions_of, precedents_of
from tribunal.prompts.marks import Entry, Material, entries, ours, quote, short_word
from tribunal.schema import Evidence, EvidenceStance, Opinion, Precedent

# Characters of an earlier case that a prompt shows.
_MOST_OF_A_POST = 600
_MOST_OF_A_NOTE = 300
_CITING = re.compile(r"(\s*)\[([A-Z]\d+(?:, ?[A-Z]\d+)*)\]")


def show_exhibits(state: CaseState, *, opinions: bool = True) -> SharedPrompt | None:
    """Return the material that a case holds beside its post; None if it holds none, so that no prompt changes.

    Args:
        state: `evidence`, `opinions`, `precedents` and `question` are read.
        opinions: whether what the perspectives said belongs to it; a debate that has them as its references leaves
            them out.
    """
    evidence = evidence_of(state)
    question = state.get("question")
    heard = opinions_of(state) if opinions else []
    decided = precedents_of(state)
    if not (evidence or heard or question or decided):
        return None
    material = {
        "evidence": evidence_shown(evidence) if evidence else "",
        "web": any(each.page_id for each in evidence),
        "looked_up": any(not each.page_id for each in evidence),
        "first": short_word(evidence[0].id) if evidence else "",
        "opinions": entries("opinions", map(_opinion_entry, heard)) if heard else "",
        "question": quote("question", question) if question else "",
    }
    if not decided:
        return SharedPrompt("court/exhibits", material)
    # A prompt of its own, which includes the other: whoever has words of their own for the exhibits keeps them.
    shown = entries("precedents", map(_precedent_entry, decided))
    material |= {
        "precedents": shown,
        "first_case": short_word(decided[0].id),
        "other_policy": any(not each.same_policy for each in decided),
        "other_category": any(not each.here for each in decided),
    }
    return SharedPrompt("court/precedents", material)


def evidence_of(state: CaseState) -> list[Evidence]:
    """Return the passages that the case holds, in the order in which they were found."""
    return [Evidence.model_validate(each) for each in state.get("evidence", [])]


def evidence_shown(evidence: Iterable[Evidence]) -> Material:
    """Return passages as a prompt shows them: id, which way each speaks, title, address, and its words."""
    return entries("evidence", map(_passage_entry, evidence))


_SPEAKS = {
    EvidenceStance.SUPPORTS: ours("supports that the post is hateful"),
    EvidenceStance.REFUTES: ours("refutes that the post is hateful"),
    EvidenceStance.NEUTRAL: ours("neutral on whether the post is hateful"),
}


def _passage_entry(each: Evidence) -> Entry:
    fields = (("title", short_line(each.title)), ("address", each.url), ("passage", each.passage))
    return Entry(
        ours("[{}] {}", each.id, _SPEAKS[each.stance]),
        [(name, text) for name, text in fields if text],
    )


def _opinion_entry(opinion: Opinion) -> Entry:
    stance = ours("hate") if opinion.stance == "hate" else ours("not hate")
    title = short_line(opinion.title)
    reason = short_line(opinion.reason)
    fields = (("title", title), ("label", opinion.label_name), ("reason", reason))
    return Entry(ours("{}: {}", opinion.id, stance), fields)


_DECIDED = {
    "accepted": "a person confirmed what the court had decided",
    "changed": "a person decided otherwise than the court",
    "appealed": "a person decided it on an appeal",
}


def _precedent_entry(each: Precedent) -> Entry:
    """Return a decided case: what may hold of it is said in our words, and all that it says stands in fields."""
    holds = ours("")
    if not each.same_policy:
        known = (
            ours("; under an earlier policy")
            if each.policy_sha
            else ours("; its policy isn't known")
        )
        holds = ours("{}, so it may not hold", known)
    followed = (
        ours("") if each.here else ours("; no category of this policy, so it can't be followed")
    )
    fields = [
        ("post", _cut(each.text, _MOST_OF_A_POST)),
        ("decided", each.here or each.category),
        ("then called", each.category if each.here not in (None, each.category) else ""),
        ("how", _DECIDED[each.how]),
        ("when", each.at[:10]),
        ("policy", each.policy),
        ("note", _cut(each.note, _MOST_OF_A_NOTE)),
    ]
    head = ours("[{}] similarity {:.2f}{}{}", each.id, each.similarity, holds, followed)
    return Entry(head, [(name, text) for name, text in fields if text])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def short_line(text: str) -> str:
    """Return a title or a reason as a list shows it: one line of at most 300 characters, no double quotes."""
    return one_line(text.replace('"', "'"))[:300]


def find_citations(words: str) -> list[str]:
    """Return the ids that a text cites, such as [E1] or [E1, E2], each once."""
    return list(
        dict.fromkeys(
            each.strip() for _, found in _CITING.findall(words) for each in found.split(",")
        )
    )


def _ids_held(state: CaseState) -> list[str]:
    return [entry["id"] for entry in (*state.get("evidence", []), *state.get("precedents", []))]


def cited_ids(state: CaseState, words: str) -> list[str]:
    """Return the ids of the case's evidence and precedents that a text cites, each once."""
    return [each for each in find_citations(words) if each in _ids_held(state)]


def strike_unknown_citations(
    state: CaseState, field: str, *, each: str = "", who: str = "model"
) -> Mend[Any]:
    """Return a mender that strikes out citations of what the case doesn't hold: no passage, precedent or cue of it.

    Args:
        state: `evidence`, `precedents` and `cues` are read.
        field: the name of the text that may cite.
        each: the list whose entries have that field; empty: the answer itself has it.
        who: the seat that answers, for the warning.

    Raises (when mending):
        ValueError: nothing else is left of a text.
    """
    held = _ids_held(state)
    known = {*held, *(cue["id"] for cue in state.get("cues") or [])}

    def keep_known(found: re.Match[str]) -> str:
        """Return a bracket with its unknown ids left out; if none is left nothing, and no space before it."""
        kept = [cited.strip() for cited in found[2].split(",") if cited.strip() in known]
        return f"{found[1]}[{', '.join(kept)}]" if kept else ""

    def strike(part: Any, warnings: list[str]) -> Any:
        text: str = getattr(part, field)
        unknown = [cited for cited in find_citations(text) if cited not in known]
        if not unknown:
            return part
        left = _CITING.sub(keep_known, text).strip()
        if not left:
            listed = f"what is listed is {', '.join(held)}" if held else "there is none to cite"
            raise ValueError(
                f"{field}: {unknown[0]!r} is cited, and is not listed in this case; {listed}"
            )
        warnings.append(
            f"the {who} cited {', '.join(unknown)}, which this case doesn't hold; that was struck out"
        )
        return part.model_copy(update={field: left})

    def mend(answer: Any, warnings: list[str]) -> Any:
        if not each:
            return strike(answer, warnings)
        return answer.model_copy(
            update={each: [strike(part, warnings) for part in getattr(answer, each)]}
        )

    return mend
