"""What the tests of the court share: a scripted model that knows which part it is asked to play."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.docket.session import judge_post
from tribunal.schema import Record
from tribunal.settings.context import context_from

# The heading of each prompt, which is how a model knows its part too.
PARTS = {
    "Prosecutor's rapid scan": "gatekeeper",
    "the Prosecutor, in a fast-track trial": "indictment",
    "investigating for a deep-dive trial": "investigation",
    "the Prosecutor, in round": "prosecution",
    "the Defender, in": "defence",
    "the Judge": "judge",
    "the safety classifier": "classifier",
    "the first look": "triage",
}


# A quotation, as (kind, mark, words).
QUOTED = re.compile(r"^<<<([\w-]+) ([0-9a-f]{16})\n(.*?)\n\1 \2>>>$", re.DOTALL | re.MULTILINE)


def part(request: Request) -> str:
    """Which part a request asks for, from the heading of its prompt."""
    told = QUOTED.sub("", request.text)  # a post may hold a heading too
    heading = next(line for line in told.splitlines() if line.startswith("# Your part: "))
    return next(name for words, name in PARTS.items() if words in heading)


def cue(claim: str, type: str = "Direct", **other: str) -> dict[str, str]:
    made = {
        "target_group": "Muslims", "claim": claim, "justification": "first-why", "type": type,
        "characteristic": "religion", "category": "Religious",
    }  # fmt: skip
    return {**made, **other}


def argument(words: str, stance: str, cue_id: str = "C1") -> dict[str, str]:
    return {
        "cue_id": cue_id,
        "target_group": "Muslims",
        "claim": "claim",
        "argument": words,
        "stance": stance,
    }


Script = Callable[[Request], Reply | Fault]
AsyncScript = Callable[[Request], Awaitable[Reply | Fault]]
# Seconds after which a test that would wait for ever fails; no test takes so long.
PATIENCE = 120


def court_script(*, explicit: bool = False, implicit: bool = True, **instead: Any) -> Script:
    """Answers for every part, told apart by their words: prosecution-2 is what the prosecutor says in round 2.

    Args:
        explicit: the gatekeeper finds a cue.
        implicit: the investigation finds one.
        instead: for a part, an answer (a dict), a `Reply`, a `Fault`, or a list of them, one a request.
    """
    spoken: dict[str, int] = {}

    def script(request: Request) -> Reply | Fault:
        name = part(request)
        spoken[name] = time = spoken.get(name, 0) + 1
        if name in instead:
            given = instead[name]
            answer = given[min(time, len(given)) - 1] if isinstance(given, list) else given
            return answer if isinstance(answer, Reply | Fault) else Reply(answer)
        answers: dict[str, dict[str, Any]] = {
            "gatekeeper": {"cues": [cue("scan-cue")] if explicit else []},
            "indictment": {"cues": [cue("indicted-cue")]},
            "investigation": {"cues": [cue("implied-cue", "Metaphor")] if implicit else []},
            "prosecution": {"arguments": [argument(f"prosecution-{time + 1}", "press")]},
            "defence": {"arguments": [argument(f"defence-{time}", "refute")]},
            "judge": {"category": "Religious", "explanation": "judge-words"},
            "classifier": {"category": "NotHate", "explanation": "classifier-words"},
        }
        if "Hateful" in request.text:
            answers["judge"]["category"] = "Hateful"
        return Reply(answers[name], prompt_tokens=10, completion_tokens=5)

    return script


def side_by_side(
    script: Script, company: Mapping[str, int], name: Callable[[Request], str] = part
) -> AsyncScript:
    """The same script, whose answers wait for each other: the proof that requests are under way at the same time.

    Args:
        company: how many requests of a name are answered together, and not before all of them have come. Where they
            come one after another none is answered, and the test ends in an error.
        name: what a request is counted as; those that `company` doesn't name are answered at once.
    """
    come: dict[str, list[asyncio.Future[None]]] = {each: [] for each in company}

    async def together(request: Request) -> Reply | Fault:
        group = name(request)
        if group in company:
            turn = asyncio.get_running_loop().create_future()
            come[group].append(turn)
            if len(come[group]) == company[group]:
                for each in come[group]:  # answered in the order in which they came
                    each.set_result(None)
                come[group].clear()
            async with asyncio.timeout(PATIENCE):
                await turn
        return script(request)

    return together


async def decide(
    server: ScriptedServer, text: str | None = "a post", *, graph: str = "arcade", **settings: Any
) -> Record:
    """One post through a graph on a scripted OpenAI-compatible server."""
    os.environ["OPENAI_BASE_URL"] = (
        f"{server.url}/v1"  # taken away again before the next test (conftest)
    )
    post = {
        name: settings.pop(name)
        for name in ("image", "language", "earlier", "appeal")
        if name in settings
    }
    context = context_from({"model": "openai:scripted", **settings})
    return await judge_post(text, graph=graph, context=context, **post)
