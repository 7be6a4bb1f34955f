"""A scripted model that plays PREDICT: its perspectives, debaters and judge, each answer a word of its own."""

from __future__ import annotations

from typing import Any

from tests.doubles import Fault, Reply, Request
from tribunal.retrievers.perspectives.perspective import EXAMPLES, find_perspective

PARTS = {
    "an annotator": "perspective",
    "the debater for non-hate\n": "open_non_hate",
    "the debater for hate\n": "open_hate",
    "the debater for non-hate, answering": "answer_non_hate",
    "the debater for hate, answering": "answer_hate",
    "the judge of the debate": "judge",
}


def part(request: Request) -> str:
    task = request.text.rpartition("# Your part: ")[2]
    return next(name for words, name in PARTS.items() if task.startswith(words))


def whose(request: Request) -> str:
    """Which example perspective a request is, by its criterion."""
    return next(
        name for name in EXAMPLES if find_perspective(name).criterion.strip()[:60] in request.text
    )


def panel(hateful: int = 3, /, **instead: Any) -> Any:
    """A script: the first `hateful` perspectives call it hate; every answer is a word of its own."""

    def script(request: Request) -> Reply | Fault:
        name = part(request)
        if name == "perspective":
            own = find_perspective(whose(request)) if "The criterion:" in request.text else None
            names = (own.labels.hate, own.labels.not_hate) if own else ("hate", "non-hate")
            if own and own.name in instead:
                given = instead[own.name]
                return given if isinstance(given, Reply | Fault) else Reply(given)
            stance = own is None or EXAMPLES.index(own.name) < hateful
            return Reply(
                {
                    "label": names[0 if stance else 1],
                    "reason": f"reason-of-{own.name if own else 'base'}",
                }
            )
        if name in instead:
            return Reply(instead[name])
        if name == "judge":
            return Reply({"label": "hate", "reason": "judge-words"})
        stance_too = {"stance": "rebut"} if name.startswith("answer") else {}
        return Reply({"argument": f"words-of-{name}.", **stance_too})

    return script
