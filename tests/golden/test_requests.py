"""One page for every seat of every graph: the whole request as it goes over the wire, and what other posts change.

`TRIBUNAL_UPDATE_DOCS=1` rewrites the pages; a pull request then shows what each agent is told otherwise.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cases.letters import FRENCH
from tests.cases.test_author_letter import asked as explained
from tests.court import decide
from tests.decided import store_of
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.doubles.web import SearchServer, Site
from tests.golden.playing import Player, difference, heading, readable
from tests.graphs.research_world import html
from tests.tables import table
from tests.where_heeded import where_heeded
from tribunal.docket.session import submit_review

PAGES = Path(__file__).parent
UPDATE = bool(os.environ.get("TRIBUNAL_UPDATE_DOCS"))
ENGLISH, KOREAN = "They are the weeds in our garden.", "그들은 우리 정원의 잡초다."
# What is asked of whom: the graph, the settings, whether the gatekeeper finds a cue.
CASES: dict[str, tuple[str, dict[str, Any], bool]] = table(__file__, "CASES")
# What one case changes: the post's language, its image, the labels; what it has beside the post.
VARIANTS: dict[str, dict[str, Any]] = {
    "a Korean post": {"text": KOREAN},
    "an image beside the text": {"image": True},
    "binary labels": {"scheme": "binary"},
    "all three": {"text": KOREAN, "image": True, "scheme": "binary"},
    "an image that the model can't see": {"image": True, "blind": True},
    "earlier posts": {"earlier": ["Who let them in?", "Nobody asked us."]},
    "an appeal": {
        "appeal": {"reason": "It is a line of a song.", "context": "I posted the music before."}
    },
    "boxes": {"image": True, "boxes": True},
    "a reviewer's question": {"question": "Is it a quotation?"},
}
OF_SOME = {"boxes": ("arcade", "multiround", "tribunal"), "a reviewer's question": ("tribunal",)}


async def asked(
    name: str, picture: str, text: str = ENGLISH, image: bool = False, **more: Any
) -> dict[str, Request]:
    """What each seat was sent in one case: of each part one request, and another one where it was sent several.

    In a loop of its own, since a loop remembers which sites may be fetched, and each case has a site of its own.
    """
    return await asyncio.to_thread(asyncio.run, _asked(name, picture, text, image, **more))


async def _asked(
    name: str, picture: str, text: str, image: bool, **more: Any
) -> dict[str, Request]:
    graph, settings, explicit = CASES[name]
    blind, question = more.pop("blind", False), more.pop("question", None)
    of_the_post = {each: more.pop(each) for each in ("earlier", "appeal") if each in more}
    if "precedents" in settings:
        await store_of()
    pages = {"/1": html("The old image is explained here.", title="On an old image")}
    player = Player(explicit=explicit)

    def script(request: Request) -> Reply | Fault:
        return (
            Fault(400, "image_url is only supported by certain models")
            if blind and request.images
            else player(request)
        )

    async with Site(pages) as site, ScriptedServer(script) as server:

        def found(query: str) -> Any:
            return [{"url": f"{site.url}/1", "title": "On an old image", "content": "a snippet"}]

        async with SearchServer(found) as search:
            os.environ["TRIBUNAL_FETCH_ALLOW"] = site.host
            web = {
                "search": "searxng",
                "searxng_url": search.url,
                "archive": "evidence.sqlite",
                "max_turns": 2,
            }
            world = {**web, **{name: more.pop(name) for name in ("scheme",) if name in more}}
            own = where_heeded(graph, world, **{**settings, **more})
            own |= {"review": True, "review_rule": ["all"]} if question else {}
            record = await decide(
                server, text, graph=graph, image=picture if image else None, **own, **of_the_post
            )
            before = len(server.requests) if question else 0
            if question:
                await submit_review(str(record.thread), {"type": "response", "args": question})
    parts: dict[str, list[Request]] = {}
    for request in server.requests[before:]:
        if blind and request.images:
            continue
        part = re.sub(r"[^a-z0-9]+", "-", heading(request).lower().replace("'", "")).strip("-")
        parts.setdefault(part, []).append(request)
    sent: dict[str, Request] = {}
    for part, requests in parts.items():
        # By their words, since those who speak at the same time arrive in any order.
        first, *_, last = sorted(
            [requests[0], *requests], key=lambda request: (request.text, request.temperature or 0)
        )
        sent[part] = first
        if (last.text, last.temperature) != (first.text, first.temperature):
            sent[f"{part}-again"] = last
    return sent


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
async def test_what_each_seat_is_sent(name: str, tmp_path: Path) -> None:
    picture = str(tmp_path / "garden.png")
    Image.new("RGB", (64, 48), (40, 120, 40)).save(picture)
    base = await asked(name, picture)
    others = {
        title: await asked(name, picture, **changes)
        for title, changes in VARIANTS.items()
        if CASES[name][0] in OF_SOME.get(title, CASES[name][0])
    }
    check_pages(name, base, others)


@pytest.mark.long
async def test_what_whoever_writes_to_the_author_is_sent() -> None:
    [request] = (await explained(FRENCH, language="fr"))[1]
    [spanish] = (await explained(FRENCH, FRENCH, language="es"))[1][:1]
    check_pages(
        "explained",
        {"the-explainer": request},
        {"an author who reads Spanish": {"the-explainer": spanish}},
    )


MATERIAL = re.compile(r"<<<([\w+.:%-]+ mark-\d+)\n.*?\n\1>>>", re.DOTALL)


@pytest.mark.parametrize(
    "page", sorted(PAGES.glob("**/*.md")), ids=lambda page: str(page.relative_to(PAGES))
)
def test_nothing_is_said_of_an_image_where_there_is_none(page: Path) -> None:
    request = page.read_text("utf-8").partition("\n# With ")[0].partition("\n## response_format")[0]
    assert "image" not in MATERIAL.sub("", request)
    assert "\n\n\n" not in request


def check_pages(name: str, base: dict[str, Request], others: dict[str, dict[str, Request]]) -> None:
    """Compare the pages of a case with those that are there, or write them."""
    folder = PAGES / name
    pages = {}
    for part, request in base.items():
        page = f"# {name}: {part}\n\n{readable(request)}"
        for title, sent in others.items():
            # Who isn't asked for boxes, or isn't sent the question, needs no section of it.
            usual = (
                others["an image beside the text"].get(part, request)
                if title == "boxes"
                else request
            )
            if part not in sent or (title in OF_SOME and readable(sent[part]) == readable(usual)):
                continue
            changed = difference(readable(usual), readable(sent[part]))
            page += f"\n# With {title}\n\n```diff\n{changed or 'nothing'}\n```\n"
        pages[f"{part}.md"] = page
    if UPDATE:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.md"):
            old.unlink()
        for file, page in pages.items():
            (folder / file).write_text(page, "utf-8")
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(pages)
    for file, page in pages.items():
        assert (folder / file).read_text("utf-8") == page
