"""The scripted models that the benchmarks are run on. A server's process imports them: nothing heavy stands here."""

from __future__ import annotations

import re

from tests.doubles import Reply, Request

# Of the usual length, and with something to say: what repeats itself is asked for again.
_EXPLANATION = (
    "The defence stands: the post reports what happened at a market, names nobody's faith, and calls no "
    "one less than human, whatever tone its author chose for it."
)
_ARGUMENT = (
    "The words were chosen by their author, in a month when others used them of the same people; a reader "
    "who knows that month can't take them for an innocent remark on the weather or the harvest."
)
_JUSTIFICATION = (
    "By itself each word is harmless; together they liken the people whom the picture shows to something "
    "that has to be cleared away before a season ends, which is how readers of that forum have taken such "
    "lines since the spring, and the caption points there."
)


def court(request: Request) -> Reply:
    """Return the scripted court: each part's answer, steered by `[[track=…]]` in the post."""
    task = request.text.rpartition("# Your part: ")[2]
    track = request.hints.get("track", "none")
    if task.startswith(("the Judge", "the safety classifier", "the first look")):
        sure = 0.5 if task.startswith("the first look") and track != "none" else 0.95
        sure_too = {"confidence": sure} if "- confidence:" in task else {}
        return Reply({"category": "NotHate", "explanation": _EXPLANATION, **sure_too})
    if task.startswith(("the Defender", "the Prosecutor, in round")):
        stance = "refute" if task.startswith("the Defender") else "press"
        said = {"cue_id": "C1", "target_group": "Muslims", "claim": "a claim of some length"}
        return Reply({"arguments": [{**said, "argument": _ARGUMENT, "stance": stance}]})
    explicit = task.startswith(("the Prosecutor, in a fast", "the Prosecutor's rapid"))
    found = track == ("fast" if explicit else "deep")
    cue = {
        "target_group": "Muslims",
        "claim": "a claim of some length",
        "justification": _JUSTIFICATION,
        "type": "Direct" if explicit else "Metaphor",
        "characteristic": "religion",
        "category": "Religious",
    }
    return Reply({"cues": [cue] if found else []})


def researcher(request: Request) -> Reply:
    """Return the scripted researcher: three queries, every hit relevant, one passage a page, enough after one turn."""
    task = request.text.rpartition("# Your part: ")[2]
    ids = re.findall(r"^\[(E\d+)\]", task, re.MULTILINE)
    if "phrasing search queries" in task:
        return Reply({"queries": ["first query", "second query", "third query"]})
    if "choosing what to read" in task:
        return Reply({"relevant": [int(each) for each in re.findall(r"^(\d+)\.$", task, re.MULTILINE)]})
    if "reading a page" in task:
        found = re.findall(r"The evidence of page \w+ is here\.", task)
        return Reply({"passages": [{"passage": each, "stance": "supports"} for each in found[:1]]})
    if "weighing a page" in task:
        return Reply({"judgement": "hate", "reasoning": "it adds up"})
    if "deciding whether to go on" in task:
        return Reply({"sufficient": True, "missing": ""})
    return Reply({"label": "HATE", "confidence": 0.9, "steps": [{"claim": "so it is", "evidence": ids}]})


def hybrid(request: Request) -> Reply:
    """Return the scripted hybrid: court, researcher, perspectives, and a defence that concedes on a mark."""
    task = request.text.rpartition("# Your part: ")[2]
    if task.startswith("an annotator"):
        assert request.schema is not None
        label = request.schema["properties"]["label"]["enum"][0]
        return Reply({"label": label, "reason": "the criterion speaks of it"})
    if task.startswith("the Defender") and "[[concede=yes]]" in request.text:
        granted = {"cue_id": "C1", "target_group": "Muslims", "claim": "a claim of some length", "stance": "concede"}
        return Reply({"arguments": [{**granted, "argument": "nothing in the post speaks against it"}]})
    courts = ("the Prosecutor", "the Defender", "the Judge", "the first look")
    return court(request) if task.startswith(courts) else researcher(request)


def debaters(request: Request) -> Reply:
    """Return the scripted views: never of one mind, so that all rounds are held, and every reflection is adopted."""
    task = request.text.rpartition("# Your part: ")[2]
    if task.startswith(("the Judge", "the Reflection")):
        named = re.findall(r"^(\w+): (?:YES|NO)$", task, re.MULTILINE)
        if task.startswith("the Judge"):
            score = 0.8 if len(named) < 4 else 0.5
            return Reply({"reason": _EXPLANATION, "scores": dict.fromkeys(named, score)})
        feedback = {"errors": _ARGUMENT, "suggestion": _EXPLANATION}
        return Reply({"feedback": dict.fromkeys(named, feedback)})
    if task.startswith("the Summary"):
        return Reply({"answer": "NO", "explanation": _EXPLANATION})
    side = "YES" if task.startswith(("the Surface", "the Deep")) else "NO"
    return Reply({"answer": side, "reason": _JUSTIFICATION})


def panel(request: Request) -> Reply:
    """Return the scripted panel of PREDICT: perspectives of two minds, debaters who never agree, and a judge."""
    assert request.schema is not None
    said: dict[str, str] = dict.fromkeys(request.schema["properties"], _EXPLANATION)
    if "label" in said:
        said["label"] = request.schema["properties"]["label"]["enum"][request.index % 2]
    if "stance" in said:
        said["stance"] = "rebut"
    return Reply(said)
