"""Answers of another type than they say, or than was asked for."""

from __future__ import annotations

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import PNG, Web, ok, outcome
from tribunal.retrievers.web.fetch.fetcher import IMAGES, PAGES

ATTACKS = Attacks()


def typed(
    body: bytes, kind: str, attack: str, happens: str, accept: frozenset[str] = PAGES
) -> None:
    async def run(web: Web) -> str:
        web.site.answers["/"] = ok(body, kind)
        return await outcome(web.fetcher().fetch("http://site.test/", accept=accept))

    ATTACKS.add(attack, "refused: content_type", happens)(run)


typed(PNG, "text/html", "An image called HTML", "The first bytes must bear the type out")
typed(
    b"%PDF-1.7", "text/plain", "A PDF called plain text", "The first bytes must bear the type out"
)
typed(b"\0\1\2\3" * 9, "text/html", "Binary data called HTML", "Text holds no NUL")
typed(
    b"<script>1", "image/png", "HTML called an image", "The same, for the image of a post", IMAGES
)
typed(PNG, "image/png", "An image where a page was asked for", "Before the body is read")
typed(b"<svg/>", "image/svg+xml", "SVG, which may hold scripts", "Only bitmaps are images", IMAGES)
typed(b"MZ", "application/octet-stream", "A download", "Before the body is read")
typed(b"<p>", "", "No type at all", "Nothing is guessed")
