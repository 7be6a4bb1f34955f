"""One scripted model for all graphs of the papers: it answers each form as the marks in the post say (`small_sets`)."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.court import QUOTED
from tests.doubles import Reply, Request
from tests.eval.experiments.small_sets import FIVE

_ALONE = ("the safety classifier", "the classifier", "an annotator", "one answer")
_number = count(1)


def part(request: Request) -> str:
    """The heading of the part that a request asks for."""
    told = QUOTED.sub("", request.text)
    lines = (line for line in told.splitlines() if line.startswith("# Your part: "))
    return next(lines).removeprefix("# Your part: ")


def played(request: Request) -> Reply:
    """What is answered: every label by the post's marks, everything else by short words that differ."""
    asked, hints = part(request), request.hints
    single = asked.startswith(_ALONE) and "criterion-of-" not in request.text
    if single and hints.get("declines") == "alone":
        return Reply(refusal="I can't help with that.", prompt_tokens=10, completion_tokens=5)
    yes = int(hints["alone" if single else "says"])
    if perspective := next(
        (name for name in FIVE if f"criterion-of-{name}." in request.text), None
    ):
        yes = int(hints[perspective.replace("-", "_")])
    if request.schema is None:
        return Reply(
            "hate speech: words" if yes else "not hate speech: words",
            prompt_tokens=10,
            completion_tokens=5,
        )
    fine = yes if single else int(hints.get("fine", yes))
    answer = _filled(request.schema, request.schema, "", asked, hints, yes, fine)
    return Reply(answer, prompt_tokens=10, completion_tokens=5)


def _filled(
    form: Any, whole: Any, name: str, asked: str, hints: dict[str, str], yes: int, fine: int
) -> Any:
    def within(inner: Any, called: str = "") -> Any:
        return _filled(inner, whole, called, asked, hints, yes, fine)

    if "$ref" in form:
        return within(whole["$defs"][form["$ref"].rpartition("/")[2]], name)
    if "const" in form:
        return form["const"]
    if (
        "enum" in form
        and fine
        and name in ("characteristic", "category")
        and "NotHate" not in form["enum"]
    ):
        return _of_cue(name, form["enum"], fine)
    if "enum" in form:
        return _label(form["enum"], yes, fine)
    if options := form.get("anyOf"):
        return within(options[0], name)
    if form.get("type") == "object":
        return {key: within(each, key) for key, each in form["properties"].items()}
    if form.get("type") == "array":
        return [within(form["items"], name) for _ in range(_how_many(form, name, asked, hints))]
    if name == "urls":
        return f"http://127.0.0.1:9/{next(_number)}"
    return {"number": 0.5, "integer": 1, "boolean": False}.get(
        form.get("type"), f"words {next(_number)}"
    )


def _how_many(form: Any, name: str, asked: str, hints: dict[str, str]) -> int:
    least = int(form.get("minItems", 0))
    if name == "cues":
        found = {
            "the Prosecutor's rapid scan": "direct",
            "the Prosecutor, investigating": "implied",
        }
        where = next((cue for words, cue in found.items() if asked.startswith(words)), None)
        return int(where is None or hints["cue"] == where)
    return max(least, int(name == "arguments"))


def _of_cue(field: str, names: list[Any], fine: int) -> Any:
    """The category of a cue by the number of the decision, or a group of this category: a court agrees with itself."""
    groups = ("race", "gender", "sexual orientation", "religion", "disability")
    wanted = (
        names[min(fine, len(names)) - 1]
        if field == "category"
        else groups[min(fine, len(groups)) - 1]
    )
    return wanted if wanted in names else names[0]


def _label(names: list[Any], yes: int, fine: int) -> Any:
    """One of the names that a form offers: of a decision the one that the marks say, of anything else the first."""
    if names[0] == "NotHate":
        return names[fine] if len(names) > 2 else names[yes]
    pairs: dict[str, str] = {"YES": "NO", "HATE": "NON-HATE", "Hate": "Fine", "hate": "non-hate"}
    return (names[0] if yes else pairs[names[0]]) if names[0] in pairs else names[0]
