"""The system over the wire, by a model that says what a test wants, with no key and no network."""

import tribunal
from tribunal.testing import Fault, ScriptedModel

ANNOTATOR, ADJUDICATOR = "# Your part: an annotator", "# Your part: the adjudicator"
HATE = {"explanation": "It sends people away.", "category": "Racist"}
NONE = {"explanation": "It greets everybody.", "category": "NotHate"}


def test_where_both_agree_nobody_else_is_asked(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(ANNOTATOR, HATE)
    record = tribunal.judge("They should go home.", graph="two_annotators")
    assert (record.category, len(record.calls)) == ("Racist", 2)


def test_the_adjudicator_is_shown_both_labels(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(ANNOTATOR, HATE, NONE)
    scripted_model.answer(ADJUDICATOR, HATE)
    record = tribunal.judge("They should go home.", graph="two_annotators")
    assert all(each["explanation"] in scripted_model.told(ADJUDICATOR)[0] for each in (HATE, NONE))
    assert (record.category, len(record.calls)) == ("Racist", 3)


def test_the_adjudicator_decides_where_an_annotator_fails(scripted_model: ScriptedModel) -> None:
    scripted_model.answer(ANNOTATOR, Fault(400, "no"), HATE)
    scripted_model.answer(ADJUDICATOR, HATE)
    assert tribunal.judge("They should go home.", graph="two_annotators").category == "Racist"
