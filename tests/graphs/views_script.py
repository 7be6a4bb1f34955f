"""A scripted model that plays MV-Debate and its peers, each answer a word of its own; and what a debate was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.court import QUOTED, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.schema import Record
from tribunal.settings.names import VIEWS

ALL = tuple(VIEWS)
HEADINGS = {
    "the Judge of the answers": "score",
    "the Reflection": "reflection",
    "the Summary": "summary",
    "the classifier": "classifier",
    "the safety classifier": "classifier",
    "an agent among equals": "agent",
}
YES, NO = dict.fromkeys(ALL, "YES"), dict.fromkeys(ALL, "NO")
SPLIT = {"surface": "YES", "deep": "YES", "contrast": "NO", "context": "NO"}
SCORES = {"surface": 0.8, "deep": 0.6, "contrast": 0.4, "context": 0.2}


def part(request: Request) -> str:
    """Which part a request asks for: surface, surface again, score, reflection, …"""
    told = QUOTED.sub("", request.text)
    heading = next(
        line for line in told.splitlines() if line.startswith("# Your part: ")
    ).removeprefix("# Your part: ")
    for name, title in VIEWS.items():
        if heading == f"the {title}":
            return f"{name} again" if "Answer again." in told else name
    return next(name for words, name in HEADINGS.items() if heading.startswith(words))


def parts(requests: Sequence[Request]) -> list[str]:
    return [part(request) for request in requests]


def scored(request: Request) -> list[str]:
    """The views whose answers a Judge or Reflection is asked about, from the form that it is to fill in."""
    assert request.schema is not None
    inner = request.schema["properties"]
    field = inner["scores"] if "scores" in inner else inner["feedback"]
    if "$ref" in field:
        field = request.schema["$defs"][field["$ref"].rpartition("/")[2]]
    return list(field["properties"])


def debate(
    rounds: Sequence[dict[str, str]] = (SPLIT,),
    *,
    first: Sequence[dict[str, float]] = (SCORES,),
    gain: float | dict[str, float] = 0.2,
    **instead: Any,
) -> Any:
    """A script.

    Args:
        rounds: what each view answers in each round; the last entry for all further ones.
        first: the scores of each round's first answers, likewise.
        gain: how much better a second answer is scored, in hundredths as they are written, or the second scores.
        instead: for a part (`deep_again` for "deep again"), an answer, a `Reply`, a `Fault`, or a list of them, one a
            request.
    """
    spoken: dict[str, int] = {}
    tally = {"first": 0, "again": 0}

    def script(request: Request) -> Reply | Fault:
        name = part(request)
        spoken[name] = time = spoken.get(name, 0) + 1
        tally["again"] += name.endswith("again")
        if (key := name.replace(" ", "_")) in instead:
            given = instead[key]
            answer = given[min(time, len(given)) - 1] if isinstance(given, list) else given
            if answer is not None:
                return answer if isinstance(answer, Reply | Fault) else Reply(answer)
        return Reply(_usual(name, time, request), prompt_tokens=10, completion_tokens=5)

    def _usual(name: str, time: int, request: Request) -> dict[str, Any]:
        view, _, again = name.partition(" ")
        if view in VIEWS:
            side = rounds[min(time, len(rounds)) - 1][view]
            return {"answer": side, "reason": f"{view}-{'second' if again else 'first'}-{time}."}
        if name == "score":
            views = scored(request)
            if tally["again"]:
                tally["again"] = 0
                held = first[min(tally["first"], len(first)) - 1]
                better = (
                    gain
                    if isinstance(gain, dict)
                    else {each: round(held[each] + gain, 4) for each in views}
                )
                return {"reason": "scores-again.", "scores": {each: better[each] for each in views}}
            tally["first"] += 1
            held = first[min(tally["first"], len(first)) - 1]
            return {"reason": "scores.", "scores": {each: held[each] for each in views}}
        if name == "reflection":
            return {
                "feedback": {
                    each: {
                        "errors": f"error-of-{each}-{time}.",
                        "suggestion": f"advice-to-{each}-{time}.",
                    }
                    for each in scored(request)
                }
            }
        if name == "agent":
            return {"answer": "YES", "reason": f"agent-words-{time}."}
        if name == "classifier":
            assert request.schema is not None
            if "answer" in request.schema["properties"]:
                return {"reason": f"sample-{time}.", "answer": "NO"}
            labels = request.schema["properties"]["category"]["enum"]
            return {"category": labels[0], "explanation": f"sample-{time}."}
        return {"answer": "YES", "explanation": "summary-words."}

    return script


def words(text: str, *names: str) -> list[str]:
    """Which of these words stand in a text."""
    return [name for name in names if name in text]


async def held(script: Any, **settings: Any) -> tuple[Record, ScriptedServer]:
    """One post through MV-Debate on a server with this script."""
    async with ScriptedServer(script) as server:
        return await decide(server, graph="mv_debate", **settings), server


def round_of(server: ScriptedServer, number: int) -> list[Request]:
    """The requests of a round, each of which has 9 calls."""
    return server.requests[9 * (number - 1) : 9 * number]


def views_in(requests: list[Request]) -> dict[str, str]:
    """What each view was shown, by its part."""
    return {part(request): request.text for request in requests}
