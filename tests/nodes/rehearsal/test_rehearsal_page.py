"""docs/rehearsal.md shows the lexicon in force."""

from __future__ import annotations

from tests import PROJECT
from tribunal.nodes.rehearsal import attribution, phrases
from tribunal.nodes.rehearsal.attacks import ATTACKS, SENT_BACK
from tribunal.nodes.rehearsal.findings import HINTS, TAKEN_BACK
from tribunal.nodes.rehearsal.groups import GROUPS
from tribunal.nodes.rehearsal.signs import SIGNS

EXCUSING = {
    "denied": phrases.NEGATION,
    "a clause ends at": phrases.CLAUSE_END,
    "but not": phrases.WHY_NOT,
    "self, of many": phrases.WE,
    "self, of one": phrases.AS_ONE,
    "nothing with a “not” before": phrases.NOT_SO,
    "condemned": phrases.CONDEMNED,
    "condemned, around it": phrases.SPOKEN_OF,
    "reported": phrases.REPORTED,
    "satire": phrases.SATIRE,
    "one person": phrases.ONE_OF_THEM,
    "praised": phrases.PRAISE,
    "agreement": phrases.ENDORSED,
    "said of a thing": attribution.THING,
}


def lexicon_in_words() -> str:
    """The lexicon as the page shows it."""
    lines = ["Groups:", ""]
    for key, group in GROUPS.items():
        lines.append(f"- **{key}**: {', '.join((*group.many, *group.one))}")
    lines += ["", "Open attacks:", ""]
    for attack in (SENT_BACK, *ATTACKS):
        lines.append(f"- **{attack.name}** (gravity {attack.gravity}): `{attack.pattern.pattern}`")
    lines += ["", "Signs of what is implied:", ""]
    for sign in SIGNS:
        strength = "strong" if sign.strong else "faint"
        alone = {None: "", "": "; also with no group named"}.get(sign.alone, f"; alone, of {sign.alone}")
        needs = f", near `{sign.needs.pattern}`" if sign.needs else ""
        only = f"; only of {', '.join(sign.only)}" if sign.only else ""
        lines.append(f"- **{sign.name}** ({sign.type}, {strength}{alone}{needs}{only}): `{sign.pattern.pattern}`")
    lines += ["", "What excuses:", ""]
    for name, pattern in EXCUSING.items():
        lines.append(f"- **{name}**: `{pattern.pattern}`")
    return "\n".join(lines)


def test_the_page_shows_the_lexicon_in_force() -> None:
    page = PROJECT.joinpath("docs/rehearsal.md").read_text("utf-8")
    assert lexicon_in_words() in page, "docs/rehearsal.md: put the output of lexicon_in_words() in its last section"


def hints_in_words() -> str:
    """The hints as the page shows them."""
    lines = []
    for task, hints in HINTS.items():
        lines += [f"{task.capitalize()}:", ""]
        for hint in hints:
            who = "every view" if hint.views is None else ", ".join(hint.views)
            beside = f", beside `{hint.beside.pattern}`" if hint.beside else ""
            unless = f", unless `{hint.unless.pattern}`" if hint.unless else ""
            lines.append(f"- **{hint.name}** ({who}): `{hint.pattern.pattern}`{beside}{unless}")
        lines += [f"- **taken back** by `{TAKEN_BACK[task].pattern}`", ""]
    return "\n".join(lines).strip()


def test_the_page_shows_the_hints_in_force() -> None:
    page = PROJECT.joinpath("docs/rehearsal.md").read_text("utf-8")
    assert hints_in_words() in page, "docs/rehearsal.md: put the output of hints_in_words() where the hints are"
