"""Go the shortest or the longest way through a graph with a model that costs nothing, so that calls can be counted.

It answers as the rehearsal model does, but for the answers that decide which way a post goes. It is named in place of a
real one, whose name follows its own, as in `tribunal.eval.experiments.forced_models:LONGEST:openai:gpt-4o`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tribunal.models.providers import Provider
from tribunal.models.role import Question
from tribunal.nodes.antihate.roles import MOST_QUERIES, MOST_URLS
from tribunal.nodes.rehearsal.model import PARTS, Part, Rehearsal
from tribunal.retrievers.web.archive import Archive, StoredPage, page_id, text_hash
from tribunal.schema import JSON
from tribunal.settings.context import Context

RouteLength = Literal["SHORTEST", "LONGEST"]
ROUTE_LENGTHS: tuple[RouteLength, ...] = ("SHORTEST", "LONGEST")
_SENTENCE = "These words are used in more than one way, and a page like this one goes on about them for a while."
_TITLE = "A page on the words"
_RESEARCH_PLAN: JSON = {
    "thought": "What the words may mean here is to be looked up.",
    "entities": ["the words"],
    "claims": [],
}
_CHARACTERS_A_TOKEN = 6  # of a page: more than any counter takes
_SAYING_YES = ("surface", "deep")  # of the views, so that they never agree


def _two_cues(question: Question) -> JSON:
    policy = question.policy
    cue = {
        "target_group": "people whom the post doesn't name",
        "justification": "What the post shows and what it says belong together, and together they say more than either "
        "does alone: it is said of a whole group, and of nobody else.",
        "characteristic": policy.protected_groups[0],
        "category": policy.categories("fine")[-1].name,
    }
    claims = (
        "The words stand for a stereotype of the group",
        "The comparison is between the group and a thing",
    )
    types = ("Socio-cultural", "Metaphor")
    return {
        "cues": [
            {**cue, "claim": claim, "type": each} for claim, each in zip(claims, types, strict=True)
        ]
    }


def _view_answer(is_yes: Callable[[str], bool]) -> Callable[[Question], JSON]:
    reason = "Seen from this side, the words and what they are said of point one way, and nothing takes it back."
    return lambda question: {
        "reason": reason,
        "answer": "YES" if is_yes(str(question.material["view"])) else "NO",
    }


def _count_tried(question: Question) -> int:
    """Count the queries or pages that were tried in the turns before."""
    return len((question.material["tried"] or "").splitlines()[1:-1])


def _query_text(tried: int, number: int) -> str:
    return f"what the words of the post mean, search {tried}-{number}"


def _page_address(*numbers: int) -> str:
    return f"https://example.org/{'-'.join(map(str, numbers))}"


_FORCED: dict[RouteLength, dict[str, Part]] = {
    "SHORTEST": {
        "gatekeeper": lambda question: {"cues": []},
        "prosecutor.investigation": lambda question: {"cues": []},
        "view.answer": _view_answer(lambda view: False),
    },
    "LONGEST": {
        "gatekeeper": lambda question: {"cues": []},
        "prosecutor.investigation": _two_cues,
        "view.answer": _view_answer(lambda view: view in _SAYING_YES),
        "researcher.queries": lambda question: {
            **_RESEARCH_PLAN,
            "queries": [
                _query_text(_count_tried(question), number) for number in range(MOST_QUERIES)
            ],
        },
        "researcher.urls": lambda question: {
            **_RESEARCH_PLAN,
            "urls": [_page_address(_count_tried(question), number) for number in range(MOST_URLS)],
        },
        "researcher.relevance": lambda question: {
            "relevant": list(
                range(
                    1, question.form.model_json_schema()["properties"]["relevant"]["maxItems"] + 1
                )
            )
        },
        "researcher.passages": lambda question: {
            "passages": [{"passage": _SENTENCE, "stance": "supports"}]
        },
        "researcher.enough": lambda question: {
            "missing": "a second source that says what the words mean",
            "sufficient": False,
        },
    },
}


def _forced_provider(length: RouteLength) -> Provider:
    return Provider(
        name=f"trying {length.lower()}",
        make=lambda endpoint: Rehearsal(parts={**PARTS, **_FORCED[length]}),
        sees_question=True,
    )


SHORTEST = _forced_provider("SHORTEST")
LONGEST = _forced_provider("LONGEST")


def model_prefix(way: RouteLength) -> str:
    """Return what stands before a real model's name."""
    return f"{__name__}:{way}:"


async def write_archive(
    file: Path, post_id: str, text: str, context: Context, *, empty: bool
) -> None:
    """Write an archive from which research on a post can be replayed: a page for every hit, or nothing."""
    archive = await Archive.open(file)
    try:
        run = await archive.begin_run(post_id, text, {})
        if empty:
            return
        words = " ".join(
            [_SENTENCE]
            * (context.max_windows * context.window_tokens * _CHARACTERS_A_TOKEN // len(_SENTENCE))
        )
        page = StoredPage(
            id=page_id("https://example.org/", words), url="https://example.org/", final_url="https://example.org/",
            title=_TITLE, language="en", date=None, text=words, truncated=False,
            content_type="text/html", status=200, fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            body_sha=text_hash(words),
        )  # fmt: skip
        await archive.add_page(page)
        for turn in range(context.max_turns):
            for number in range(MOST_QUERIES):
                addresses = [
                    _page_address(turn, number, rank) for rank in range(1, context.hits + 1)
                ]
                query = _query_text(turn * MOST_QUERIES, number)
                hits = [
                    {
                        "query": query,
                        "url": url,
                        "title": _TITLE,
                        "snippet": _SENTENCE,
                        "engine": "none",
                        "rank": rank,
                    }
                    for rank, url in enumerate(addresses, start=1)
                ]
                await archive.add_search(run, turn + 1, query, "none", hits)
                for url in addresses:
                    await archive.add_fetch(run, turn + 1, url, page.id)
            for number in range(MOST_URLS):
                named = _page_address(turn * min(MOST_URLS, context.max_pages), number)
                await archive.add_fetch(run, turn + 1, named, page.id)
    finally:
        await archive.close()
