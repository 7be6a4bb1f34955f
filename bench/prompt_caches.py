"""Measure how much of the prompts providers can serve from their caches: what requests have in common from their begin.

Each request over the wire is compared with all before it. Tokens are taken to be four characters long, and an image to
be 1,500 of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect, insort
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from bench.arcade import posts
from bench.scripts import court, debaters, hybrid
from bench.server import Script
from bench.table import table
from tests.doubles import Request, ScriptedServer
from tribunal.loops import run_many
from tribunal.models.model_call import IMAGE_TOKENS, ModelCall
from tribunal.terminal import say

_CHARACTERS = 4  # of a token
_FEWEST, _STEP = 1024, 128  # tokens: what OpenAI documents
_GRAPHS: dict[str, Script] = {"arcade": court, "tribunal": hybrid, "mv_debate": debaters}
_SETTINGS: dict[str, Any] = {"tribunal": {"perspectives": ["example-harm", "example-newsroom"]}}


def prompt_caches(quick: bool) -> None:
    """Print the share of prompt tokens that a cache can serve, by the order of case and role."""
    number = 8 if quick else 100
    say(f"### Prompts that caches can serve ({number} posts, one after another)\n", lines=True)
    rows = []
    with TemporaryDirectory() as folder:
        for graph in _GRAPHS:
            for kind, images in (("text", ()), ("text and image", _draw_images(Path(folder), number))):
                for order in ("case first", "role first"):
                    requests = run_many(_ask(graph, number, images, order))
                    alone = _shared([_prompt(each) for each in requests], fewest=1, step=1)
                    behind_form = _shared([_form(each) + _prompt(each) for each in requests], _FEWEST, _STEP)
                    rows.append((graph, kind, order, str(len(requests)), alone, behind_form))
    head = ("graph", "posts", "order", "calls", "shared with an earlier call", "as OpenAI's cache counts")
    table(head, rows)
    say(
        "As OpenAI's cache counts: the answer's form stands first; 1,024 tokens or more, in steps of 128.\n",
        lines=True,
    )


def _draw_images(folder: Path, number: int) -> list[str]:
    from PIL import Image

    paths = [f"{folder}/{place}.png" for place in range(number)]
    for place, path in enumerate(paths):
        Image.new("RGB", (64, 64), (place, 0, 0)).save(path)
    return paths


async def _ask(graph: str, number: int, images: Sequence[str], order: str) -> Sequence[Request]:
    from tribunal.cases.session import judge_post
    from tribunal.context import context_from

    context = context_from({"model": "openai:scripted", **_SETTINGS.get(graph, {})})
    async with ScriptedServer(_GRAPHS[graph]) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        with patch.object(ModelCall, "messages", _case_first if order == "case first" else ModelCall.messages):
            for place, text in enumerate(posts(number)):
                image = images[place] if images else None
                record = await judge_post(text, image, graph=graph, context=context)
                if record.outcome != "verdict":
                    raise RuntimeError(f"the benchmark's model failed: {record.fault} {record.explanation}")
        return server.requests


def _case_first(call: ModelCall) -> list[Any]:
    """Return the messages of a call in the other order."""
    words: list[Any] = [{"type": "text", "text": f"{call.case_words}\n\n{call.role_words}"}]
    image = [{"type": "image_url", "image_url": {"url": call.image[0]}}] if call.image else []
    return [("system", call.question.system), ("human", [*image, *words])]


def _form(request: Request) -> str:
    return json.dumps(request.body.get("response_format"), sort_keys=True)


def _prompt(request: Request) -> str:
    """Return a prompt as one text, in which an image is as long as its tokens are."""
    return "\n".join(f"{each['role']}\n{_words(each['content'])}" for each in request.body["messages"])


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(each["text"] if each["type"] == "text" else _in_place_of_image(each) for each in content)


def _in_place_of_image(piece: Any) -> str:
    digest = hashlib.sha256(piece["image_url"]["url"].encode()).hexdigest()
    return (digest * (IMAGE_TOKENS * _CHARACTERS // len(digest) + 1))[: IMAGE_TOKENS * _CHARACTERS]


def _shared(prompts: Sequence[str], fewest: int, step: int) -> str:
    """Return the share of all tokens that begin an earlier prompt too, where at least the `fewest` tokens do."""
    seen: list[str] = []
    shared = 0
    for prompt in prompts:
        place = bisect(seen, prompt)  # the prompt with the longest common prefix is a neighbour in order
        near = seen[max(place - 1, 0) : place + 1]
        longest = max((_common(prompt, each) for each in near), default=0) // _CHARACTERS
        shared += longest // step * step if longest >= fewest else 0
        insort(seen, prompt)
    return f"{shared / (sum(map(len, prompts)) / _CHARACTERS):.0%}"


def _common(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
