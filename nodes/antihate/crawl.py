"""The pages of a turn, fetched and read beside each other, and handed out one by one as they are done (section 3).

A page is read window by window, and kept of it is what stands in it word for word.

So a slow page holds up no other, and the judgement can be updated after one page while the next are on their way. The
tasks live here, by the crawl's id, and not in the state: a case that goes on in another process starts its pages anew.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.runtime import Runtime

from tribunal.budget import LAST_WORD, Budget
from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.loops import PerLoop
from tribunal.models.ask import Answer
from tribunal.nodes.antihate.research import ask_archived, gather_answers, library_of_case, merge_logs
from tribunal.nodes.antihate.roles import PASSAGES
from tribunal.nodes.exhibits import short_line
from tribunal.nodes.state import ResearchState, post_of
from tribunal.prompts.marks import quote
from tribunal.schema import JSON, Evidence

if TYPE_CHECKING:
    from tribunal.retrievers.web.archive import StoredPage

PageReader = Callable[[str], Coroutine[Any, Any, JSON]]
_KEPT = 256


class Crawl:
    """Some pages under way, by URL."""

    def __init__(self, urls: Iterable[str], work: PageReader) -> None:
        """Start the work on every page."""
        self._work = work
        self._tasks = {url: asyncio.ensure_future(work(url)) for url in urls}

    async def next_page(
        self, pending: Sequence[str], *, in_order: bool = False, seconds: float
    ) -> tuple[str, JSON] | None:
        """Return the next of the pending pages that is done, or None if none is within so many seconds.

        With `in_order`, the first of the pending ones, however long the others have been done: a replay goes the way
        that the archived run went.
        """
        for url in pending:
            if url not in self._tasks:
                self._tasks[url] = asyncio.ensure_future(self._work(url))
        waited = {url: self._tasks[url] for url in (pending[:1] if in_order else pending)}
        await asyncio.wait(waited.values(), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        done = next((url for url, task in waited.items() if task.done()), None)
        return None if done is None else (done, self._tasks.pop(done).result())

    def cancel(self) -> None:
        """Stop what is still under way."""
        for task in self._tasks.values():
            task.cancel()


Crawls = OrderedDict[str, Crawl]


async def _no_crawls() -> Crawls:
    return OrderedDict()


async def _stop_crawls(crawls: Crawls) -> None:
    for crawl in crawls.values():
        crawl.cancel()


_crawls = PerLoop(_no_crawls, _stop_crawls)


async def start_crawl(state: ResearchState, runtime: Runtime[Context]) -> str:
    """Begin a crawl of the pending pages, and return its id.

    The oldest of very many is stopped: its case was paused and never went on.
    """
    held = await _crawls.get()
    crawl_id = uuid.uuid4().hex[:12]
    held[crawl_id] = Crawl([each["url"] for each in state["pending"]], _make_page_reader(state, runtime))
    while len(held) > _KEPT:
        held.popitem(last=False)[1].cancel()
    return crawl_id


async def resume_crawl(state: ResearchState, runtime: Runtime[Context]) -> Crawl:
    """Return the crawl under way.

    If it was begun in another process, the one returned starts its pages when it is asked for them.
    """
    held = await _crawls.get()
    return held.setdefault(state.get("crawl") or "", Crawl((), _make_page_reader(state, runtime)))


async def end_crawl(state: ResearchState) -> None:
    """Forget the crawl under way, and stop what it still has under way."""
    held = await _crawls.get()
    if crawl := held.pop(state.get("crawl") or "", None):
        crawl.cancel()


def _make_page_reader(state: ResearchState, runtime: Runtime[Context]) -> PageReader:
    """Return what reads one URL: fetch it, read it window by window, keep passages that stand in it."""
    by_url = {each["url"]: each for each in state["pending"]}

    async def work(url: str) -> JSON:
        target = by_url[url]
        note: JSON = {
            "id": url, "url": url, "turn": state["turn"], "page_id": None, "title": target["title"], "language": None,
            "date": None, "error": None, "passages": [], "rejected": 0, "calls": [], "warnings": [],
        }  # fmt: skip
        library = await library_of_case(state)
        # A page that the model named itself may carry the post's own words outward; one that a search found can't.
        secret = post_of(state).text if not target["query"] else ""
        page = await library.fetch_page(url, state["run"], state["turn"], secret_text=secret)
        if isinstance(page, str):
            return {**note, "error": page}
        title = page.title or target["title"]
        note |= {"page_id": page.id, "title": title, "language": page.language, "date": page.date}
        try:
            return {**note, **await _find_evidence(page, title, target["query"], state, runtime)}
        except ModelError as fault:
            # A page that the model won't or can't read is one page less, and not the end of the case.
            said = f"{url}: could not be read: {fault}"
            return {**note, "error": said, "calls": list(fault.calls), "warnings": [*fault.warnings, said]}

    return work


async def _find_evidence(
    page: StoredPage, title: str, query: str, state: ResearchState, runtime: Runtime[Context]
) -> JSON:
    """Return the evidence in a page, how many quoted passages it doesn't hold, and the log.

    Its windows are read at the same time. `query` found the page; it is empty if the model named the page itself.
    """
    from tribunal.retrievers.web.passages import cut_windows_in_thread, find_passage

    context, library = context_of(state), await library_of_case(state)
    counter = await library.web.counter
    parts = await cut_windows_in_thread(page.text, context.window_tokens, context.window_overlap, counter)
    # Each page of a turn gets its share of what is left. Kept: the judgement after each page, whether it is enough, and
    # the verdict.
    pages = len(state["pending"])
    share = max(1, pages)
    affordable = Budget.from_state(context, state).most(context.max_windows * share, kept=pages + 1 + LAST_WORD)
    windows = parts[: affordable // share]

    async def read(place: int) -> Answer[Any]:
        return await ask_archived(
            PASSAGES,
            state,
            runtime,
            "passages",
            f"{page.id}: {place}",
            window=place + 1,
            windows=len(parts),
            title=quote("title", short_line(title) or "(none)"),
            page=quote("page", windows[place].text, lines=True),
        )

    answers = await gather_answers(read(place) for place in range(len(windows)))
    found: dict[tuple[int, int], JSON] = {}
    rejected = 0
    for window, given in zip(windows, answers, strict=True):
        for named in given.value.passages:
            span = find_passage(window.text, named.passage)
            if span is None:
                rejected += 1
                continue
            start, end = window.start + span[0], window.start + span[1]
            if (start, end) not in found:
                found[start, end] = Evidence(
                    id="", query=query, url=page.url, page_id=page.id, title=title, passage=page.text[start:end],
                    stance=named.stance, window=window.index, start=start, end=end,
                ).dump()  # fmt: skip
    log = merge_logs(answers)
    warnings = [counter.warning] if counter.warning else []
    warnings += log["warnings"]
    if unread := len(parts) - len(windows):
        limited = len(windows) == context.max_windows
        why = f"max_windows is {context.max_windows}" if limited else "the budget had no more calls"
        warnings.append(f"{page.url}: {unread} of its {len(parts)} parts were not read: {why}")
    if page.truncated:
        warnings.append(f"{page.url}: is longer than what is taken of a page; its end was not read")
    if rejected:
        warnings.append(f"{page.url}: {rejected} passages that it doesn't hold were rejected")
    return {"passages": list(found.values()), "rejected": rejected, "calls": log["calls"], "warnings": warnings}
