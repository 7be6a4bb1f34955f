"""The scripted model of the benchmarks. The server's process imports it, so nothing heavy is imported here."""

from __future__ import annotations

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
