"""The parts of a court: gatekeeper, prosecutor, defender, judge, the classifier, who decides alone, and the explainer.

Attacks and excuses are read from the post alone, and what has been said from the role's material alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tribunal.core.calls import NOTHING_FOUND
from tribunal.models.role import Question
from tribunal.nodes.explaining import category_from, decision_from
from tribunal.nodes.rehearsal.lexicon import (
    LEXICON,
    CueStatement,
    argue,
    category_of_group,
    evidence_ids,
    labels_of_cue,
    read_entries,
    read_transcript,
    statements_in,
)
from tribunal.nodes.rehearsal.reading import (
    Excuse,
    PostReading,
    SignMatch,
    decide_alone,
    fill_decision,
    plain_text,
    reading_of_question,
    shorten_quote,
)
from tribunal.schema import JSON

# Numbers of cues.
MOST_SCANNED = 2
MOST_CHARGED = 3
MOST_IMPLIED = 2
HARMLESS = "harmless reading"  # a refutation that rests on this alone doesn't carry with the judge

_UNNAMED = "people it doesn't name"
_AGAIN = "As before: "
_QUOTED = re.compile(r"[“\"]([^“”\"\n]+)[”\"]")


def scan_post(question: Question) -> JSON:
    """Play the gatekeeper: name the open attacks."""
    return _cues_from_matches(question, reading_of_question(question).direct[:MOST_SCANNED])


def indict_post(question: Question) -> JSON:
    """Name the open attacks and then what is implied."""
    return _cues_from_matches(question, reading_of_question(question).found[:MOST_CHARGED])


def investigate_post(question: Question) -> JSON:
    """Name what is implied; an open attack, which no gate has taken out, implies something too.

    Where the rules find nothing, a passage that calls the post's words hateful is a cue.
    """
    reading = reading_of_question(question)
    opened = [
        replace(match, type="Metaphor" if match.is_figure else "Socio-cultural")
        for match in reading.direct
    ]
    passages = evidence_ids(question.shared, "supports")
    if reading.found or not passages:
        return _cues_from_matches(question, [*reading.implied, *opened][:MOST_IMPLIED])
    characteristic, category = labels_of_cue(question.policy, "")
    cue = {
        "target_group": _UNNAMED,
        "claim": f"“{shorten_quote(reading.text[:200]) or 'the post'}”",
        "justification": argue("read_hateful", passage=passages[0]),
        "type": "Socio-cultural",
        "characteristic": characteristic,
        "category": category,
    }
    return {"cues": [cue]}


def _cues_from_matches(question: Question, matches: Iterable[SignMatch]) -> JSON:
    return {"cues": [_cue_from_match(question, match) for match in matches]}


def _cue_from_match(question: Question, match: SignMatch) -> JSON:
    policy = question.policy
    term = shorten_quote(match.term)
    facts = {
        "words": match.words,
        "matched": shorten_quote(match.matched),
        "charge": match.charge,
        "implies": match.sign.implies,
        "who": f"“{term}”" if term else _UNNAMED,
        "tenor": term or match.key or "outsiders",
    }
    said = LEXICON.claims[match.type]
    characteristic, category = labels_of_cue(policy, match.key)
    unseen = argue("image_unseen") if question.post.image else ""
    return {
        "target_group": term or match.key or _UNNAMED,
        "claim": said["claim"].format(**facts),
        "justification": said["reason"].format(**facts) + unseen,
        "type": match.type,
        "characteristic": characteristic,
        "category": category,
    }


def prosecute_cues(question: Question) -> JSON:
    """Answer in round k: withdraw what the post itself excuses, where that may be, and press the rest."""
    own = statements_in(question, "own")
    defence = statements_in(question, "defence")
    cues = own | defence | own  # its own first, in its own words
    answers = [(cue, *_press_cue(question, cue, defence.get(cue.cue_id))) for cue in cues.values()]
    if not question.shared_material:
        all_the_same = ("press", argue("all_the_same"))
        answers = [
            (cue, *(all_the_same if said[0] == "withdraw" else said)) for cue, *said in answers
        ]
    return _admit_arguments(question, own, answers)


def _press_cue(
    question: Question, cue: CueStatement, answer: CueStatement | None
) -> tuple[str, str]:
    """Return the prosecution's stance on one cue, and why."""
    reading = reading_of_question(question)
    match = _match_of_cue(reading, cue)
    excuse = _excuse_of_cue(reading, match)
    if cue.stance == "withdraw":
        return "withdraw", argue("withdrawn")
    if answer is None or answer.stance not in ("refute", "concede"):
        return "press", argue("unanswered")
    if answer.stance == "concede":
        return "press", argue("granted")
    if excuse and excuse.kind == "nobody":
        return "withdraw", argue("nobody")
    if excuse and excuse.weak and int(question.material.get("round", 1)) <= 2:
        return "press", argue("not_enough", words=excuse.words)
    if excuse:
        return "withdraw", argue("supported", words=excuse.words)
    if not _is_harmless(answer.argument):
        return "press", argue("unsupported")
    if match is None:
        return "press", argue("no_basis")
    words = shorten_quote(match.matched)
    if reading.stands_alone(match):
        return "withdraw", argue("too_faint", words=words)
    return "press", argue("left_out", words=words, meaning=match.meaning)


def defend_post(question: Question) -> JSON:
    """Refute what the post itself excuses, try a harmless reading of what is only implied, leave out the rest."""
    own = statements_in(question, "own")
    cues = statements_in(question, "prosecution")
    refuted = ((cue, _refute_cue(question, cue, own.get(cue.cue_id))) for cue in cues.values())
    return _admit_arguments(question, own, ((cue, "refute", why) for cue, why in refuted if why))


def _refute_cue(question: Question, cue: CueStatement, before: CueStatement | None) -> str:
    """Return why the defence refutes a cue; empty if it concedes it, by leaving it out."""
    reading = reading_of_question(question)
    match = _match_of_cue(reading, cue)
    if cue.stance == "withdraw":
        return argue("nothing_left")
    excuse = _excuse_of_cue(reading, match)
    if excuse:
        return excuse.plea
    if before and before.stance == "refute" and not _is_harmless(before.argument):
        return before.argument
    direct = (match.type if match else cue.type) == "Direct"
    if not direct and (passages := evidence_ids(question.shared, "refutes")):
        return argue("read_harmless", passage=passages[0])
    if direct:
        return ""
    later = int(question.material.get("round", 1)) > 1
    if match and later and reading.stands_alone(match):
        return argue("too_faint", words=shorten_quote(match.matched))
    if later or (before and before.stance == "concede"):
        return ""
    if match is None:
        return argue("harmless", words="It", harmless="an everyday remark")
    return argue(
        "harmless", words=f"“{shorten_quote(match.matched)}”", harmless=match.sign.harmless
    )


def _admit_arguments(
    question: Question,
    own: dict[str, CueStatement],
    answers: Iterable[tuple[CueStatement, str, str]],
) -> JSON:
    """Return the arguments that the court admits: an edited transcript may name cues that it doesn't know."""
    arguments = []
    for cue, stance, reason in answers:
        before = own.get(cue.cue_id)
        again = _AGAIN if before and before.stance == stance else ""
        argument = {
            "cue_id": cue.cue_id,
            "target_group": cue.target_group or "(not said)",
            "claim": cue.claim or "(not said)",
            "argument": again + reason.removeprefix(_AGAIN),
            "stance": stance,
        }
        try:
            form = question.form.model_validate({"arguments": [argument]})
            if question.mend:
                question.mend(form, [])
        except ValueError:
            continue
        arguments.append(argument)
    return {"arguments": arguments}


def _match_of_cue(reading: PostReading, cue: CueStatement) -> SignMatch | None:
    """Return what the rules themselves found in the post that a cue speaks of, whoever worded the cue."""
    claim = plain_text(cue.claim).casefold()
    quoted = [quote[1].casefold() for quote in _QUOTED.finditer(claim)]
    same = [
        match
        for match in reading.matches
        if quoted and plain_text(match.words).casefold() == quoted[-1]
    ]
    of_its_type = [match for match in same if cue.type in ("", match.type)]
    named = [
        match for match in reading.matches if match.matched and match.matched.casefold() in claim
    ]
    return next(iter((*of_its_type, *same, *named)), None)


def _excuse_of_cue(reading: PostReading, match: SignMatch | None) -> Excuse | None:
    """Return what in the post speaks against a cue that is tied to this match, or to none that the rules find."""
    if match:
        return match.excuse
    if not reading.names_protected and not reading.matches:
        return Excuse("nobody", "")
    # A cue in words of its own is excused by what excuses everything that was found.
    excuses = [each.excuse for each in reading.matches]
    return excuses[0] if excuses and all(excuses) else None


def _is_harmless(argument: str) -> bool:
    """Return whether an argument offers only a harmless reading; words quoted from the post don't count."""
    return HARMLESS in re.sub(r"“[^”]*”", "", argument).casefold()


def judge_debate(question: Question) -> JSON:
    """Play the judge, by the debate only: hateful if a cue remains, of the first such cue's category."""
    rulings = _rule_on_cues(question)
    if not rulings and "(opening):" in str(question.material.get("transcript", "")):
        # a debate without cues, which these rules can't count: the post decides
        return decide_alone(question)
    names = [category.name for category in question.policy.categories(question.scheme)]
    standing = [(cue, why) for cue, stands, why in rulings if stands]
    if not rulings:
        return fill_decision(names[0], f"No cue was brought against the post. {NOTHING_FOUND}")
    if not standing:
        fell = " ".join(f"{_cue_in_words(cue)} is dropped: {why}." for cue, _, why in rulings[:3])
        return fill_decision(names[0], f"No cue remains. {fell}")
    cue, why = next((each for each in standing if each[0].type == "Direct"), standing[0])
    category = cue.category if cue.category in names[1:] else ""
    category = category or category_of_group(
        question.policy, question.scheme, cue.characteristic or cue.target_group
    )
    whom = (
        f"{cue.target_group}, for {cue.characteristic}"
        if cue.characteristic
        else f"people for {cue.target_group}"
    )
    if len(rulings) == 1:
        remaining = "The defence did not refute the only cue."
    else:
        remaining = f"The defence did not refute {len(standing)} of {len(rulings)} cues."
    return fill_decision(
        category,
        f"{remaining} {_cue_in_words(cue)} decides: {why}. It is an attack on {whom}, which is "
        f"{category} under the policy.",
    )


def _rule_on_cues(question: Question) -> list[tuple[CueStatement, bool, str]]:
    """Return, for each cue, whether it remains after each side's last words, and why."""
    charged: dict[str, CueStatement] = {}
    last: dict[tuple[str, str], CueStatement] = {}
    stances = {"prosecutor": ("press", "withdraw"), "defender": ("refute", "concede")}
    for seat, statements in read_transcript(question):
        for cue_id, statement in statements.items():
            if seat == "prosecutor":
                charged.setdefault(cue_id, statement)
            if statement.stance in stances.get(seat, ()):
                last[seat, cue_id] = statement
    found = []
    for cue_id, cue in charged.items():
        pressed = last.get(("prosecutor", cue_id))
        answer = last.get(("defender", cue_id))
        if pressed and pressed.stance == "withdraw":
            found.append((cue, False, "the prosecution withdrew it"))
        elif answer is None:
            found.append((cue, True, "the defence did not answer it"))
        elif answer.stance == "concede":
            found.append((cue, True, "the defence conceded it"))
        elif _is_harmless(answer.argument):
            only = f"the defence had only a {HARMLESS} to offer, which no words of the post support"
            found.append((cue, True, only))
        else:
            found.append((cue, False, f"the defence refuted it ({answer.argument.rstrip('.')})"))
    return found


def _cue_in_words(cue: CueStatement) -> str:
    return f"{cue.cue_id}, {cue.claim.rstrip('.')}," if cue.claim else cue.cue_id


def cite_clauses(question: Question, answer: JSON) -> JSON:
    """Return an answer with the first clause of its category, in each cue and in a decision, where they are asked for.

    In two labels the clause is that of the gravest sign.
    """
    policy = question.policy
    reading = reading_of_question(question)
    by_category: dict[str, str] = {}
    for clause in policy.clauses:
        by_category.setdefault(clause.category, clause.id)
    if "cues" in answer:
        cues = [{**cue, "clause": by_category.get(cue["category"], "")} for cue in answer["cues"]]
        return {**answer, "cues": cues} if by_category else answer
    if not by_category or "clauses" not in question.form.model_fields:
        return answer
    said = answer.get("answer", answer.get("label"))
    category = answer.get("category") or policy.binary[said in ("YES", "HATE", "hate")].name
    if category == policy.binary[1].name and reading.gravest:
        category = category_of_group(policy, "fine", reading.gravest.key)
    cited = by_category.get(category)
    return {**answer, "clauses": [cited] if cited else []}


def explain_decision(question: Question) -> JSON:
    """Say what was decided, and the first words that each ground quotes, in English whatever is asked for."""
    told = question.write_task()
    decision = decision_from(told)
    letter = LEXICON.letters[decision]
    text = letter["text"]
    grounds = []
    for head, fields in read_entries(str(question.material.get("grounds", ""))):
        if fields.get("words"):
            words = f"“{fields['words']}”"
            sentence = "This is about your words {}."
        elif fields.get("group"):
            words = fields["group"]
            sentence = "It attacks {}."
        else:
            continue
        text += f" {sentence.format(words)}"
        grounds.append({"id": head.strip("[]"), "words": words})
    said = {"title": letter["title"], "text": text, "grounds": grounds, "decision": decision}
    return {**said, "category": category_from(told)}
