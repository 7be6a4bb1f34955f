"""The pages of a turn: fetched at the same time, and read as they arrive (section 3).

A slow page holds up no other: the judgement is updated after one page while the next are on their way. The fetches live
here, by the crawl's id, and not in the state: a case that goes on in another process fetches its pages again.

A page is read window by window. A passage of an answer is kept if the page has it word for word.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langgraph.runtime import Runtime

from tribunal.errors import ModelError
from tribunal.models.ask import Answer
from tribunal.models.budget import LAST_WORD, Budget
from tribunal.models.saved_calls import gather_calls, save_call, save_result
from tribunal.models.stops import is_stepped_through
from tribunal.nodes.antihate.research import (
    ask_archived,
    gather_answers,
    library_of_case,
    merge_logs,
)
from tribunal.nodes.antihate.roles import PASSAGES
from tribunal.nodes.exhibits import short_line
from tribunal.nodes.state import ResearchState, post_of
from tribunal.process.loops import PerLoop
from tribunal.prompts.marks import quote
from tribunal.schema import JSON, Evidence
from tribunal.settings.context import Context, context_of

if TYPE_CHECKING:
    from tribunal.retrievers.web.archive import StoredPage
    from tribunal.retrievers.web.page_reader import Window

PageFetcher = Callable[[str], Coroutine[Any, Any, "StoredPage | str"]]
_KEPT = 256


class Crawl:
    """Pages that are being fetched, by URL."""

    def __init__(self, urls: Iterable[str], fetch: PageFetcher) -> None:
        """Start to fetch every page."""
        self._fetch = fetch
        self._tasks = {url: asyncio.ensure_future(fetch(url)) for url in urls}

    async def wait_for_pages(
        self, pending: Sequence[str], *, in_order: bool = False, seconds: float
    ) -> list[str]:
        """Wait until a pending page is there, and return the URLs of all that are; empty if none is in so many seconds.

        With `in_order`, wait for the first of the pending ones, and return it alone: a replay goes the way that the
        archived run went.
        """
        waited = {url: self._task_of(url) for url in pending}
        if in_order:
            waited = {pending[0]: waited[pending[0]]}
        await asyncio.wait(
            waited.values(), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED
        )
        return [url for url, task in waited.items() if task.done()]

    async def page(self, url: str) -> StoredPage | str:
        """Return a page, or in words why there is none."""
        return await self._task_of(url)

    def _task_of(self, url: str) -> asyncio.Task[StoredPage | str]:
        if url not in self._tasks:
            self._tasks[url] = asyncio.ensure_future(self._fetch(url))
        return self._tasks[url]

    def cancel(self) -> None:
        """Stop all unfinished work."""
        for task in self._tasks.values():
            task.cancel()


Crawls = OrderedDict[str, Crawl]


async def _no_crawls() -> Crawls:
    return OrderedDict()


async def _stop_crawls(crawls: Crawls) -> None:
    for crawl in crawls.values():
        crawl.cancel()


_crawls = PerLoop(_no_crawls, _stop_crawls)


async def start_crawl(state: ResearchState) -> str:
    """Begin a crawl of the pending pages, and return its id.

    The oldest of very many is stopped: its case was paused and never went on.
    """
    held = await _crawls.get()
    crawl_id = uuid.uuid4().hex[:12]
    held[crawl_id] = Crawl([each["url"] for each in state["pending"]], _make_page_fetcher(state))
    while len(held) > _KEPT:
        held.popitem(last=False)[1].cancel()
    return crawl_id


async def resume_crawl(state: ResearchState) -> Crawl:
    """Return the crawl under way.

    If it was begun in another process, the one returned starts its pages when it is asked for them.
    """
    held = await _crawls.get()
    return held.setdefault(state.get("crawl") or "", Crawl((), _make_page_fetcher(state)))


async def end_crawl(state: ResearchState) -> None:
    """Forget the current crawl, and stop its unfinished work."""
    held = await _crawls.get()
    crawl = held.pop(state.get("crawl") or "", None)
    if crawl:
        crawl.cancel()


def _make_page_fetcher(state: ResearchState) -> PageFetcher:
    by_url = {each["url"]: each for each in state["pending"]}

    async def fetch(url: str) -> StoredPage | str:
        library = await library_of_case(state)
        # A page that the model named itself may carry the post's own words outward; one that a search found can't.
        secret = post_of(state).text if not by_url[url]["query"] else ""
        return await library.fetch_page(url, state["run"], state["turn"], secret_text=secret)

    return fetch


@dataclass
class _PageReading:
    """A fetched page while its windows are read."""

    page: StoredPage
    title: str
    query: str  # that found it; empty if the model named the page itself
    parts: list[Window]
    windows: list[Window]  # the parts that are read
    answers: Iterable[Awaitable[Answer[Any]]] = ()  # one a window


async def read_arrived_pages(
    state: ResearchState, runtime: Runtime[Context], *, seconds: float, kept: int = 0
) -> tuple[list[JSON], JSON]:
    """Wait until a pending page has arrived, and read all that have, all windows at the same time.

    Args:
        state: the case.
        runtime: that of the run.
        seconds: how long to wait at most.
        kept: how many calls are left to the node's other work.

    Returns:
        A `ReadPage` for each, in the order of arrival; none if no page arrived. And their `calls` and `warnings`.
    """
    urls = [each["url"] for each in state["pending"]]
    order = await (await library_of_case(state)).replay_order(state["turn"], urls)
    pages = await resume_crawl(state)

    async def wait_for_pages() -> JSON:
        return {
            "urls": await pages.wait_for_pages(
                order or urls, in_order=order is not None, seconds=seconds
            )
        }

    arrived = (await save_result(runtime, wait_for_pages))["urls"]
    read = await _read_pages(arrived, pages, state, runtime, kept)
    return read, {
        name: [each for page in read for each in page.pop(name)] for name in ("calls", "warnings")
    }


async def _read_pages(
    urls: Sequence[str], pages: Crawl, state: ResearchState, runtime: Runtime[Context], kept: int
) -> list[JSON]:
    by_url = {each["url"]: each for each in state["pending"]}
    readings: dict[str, _PageReading] = {}
    errors: dict[str, str] = {}
    for url in urls:
        page = await pages.page(url)
        if isinstance(page, str):
            errors[url] = page
        else:
            readings[url] = await _cut_page(page, by_url[url], state, kept)
    in_turn = is_stepped_through(state, runtime)
    for reading in (
        readings.values()
    ):  # nothing is awaited in between: the calls begin in the same order each time
        answers = (
            _ask_about_window(reading, place, state, runtime)
            for place in range(len(reading.windows))
        )
        reading.answers = answers if in_turn else list(answers)

    async def read(url: str) -> JSON:
        note: JSON = {
            "id": url, "url": url, "turn": state["turn"], "page_id": None, "title": by_url[url]["title"],
            "language": None, "date": None, "error": errors.get(url), "passages": [], "rejected": 0,
            "calls": [], "warnings": [],
        }  # fmt: skip
        if url in errors:
            return note
        reading = readings[url]
        page = reading.page
        note |= {
            "page_id": page.id,
            "title": reading.title,
            "language": page.language,
            "date": page.date,
        }
        try:
            return {**note, **await _find_evidence(reading, state, in_turn=in_turn)}
        except ModelError as fault:
            # A page that the model won't or can't read is one page less, and not the end of the case.
            said = f"{url}: could not be read: {fault}"
            return {
                **note,
                "error": said,
                "calls": list(fault.calls),
                "warnings": [*fault.warnings, said],
            }

    notes = await gather_calls(map(read, urls), in_turn=in_turn)
    for each in notes:
        if isinstance(each, BaseException):
            raise each
    return cast("list[JSON]", notes)


async def _cut_page(
    page: StoredPage, target: JSON, state: ResearchState, kept: int
) -> _PageReading:
    from tribunal.retrievers.web.page_reader import cut_windows_in_thread

    context = context_of(state)
    library = await library_of_case(state)
    counter = await library.web.counter
    parts = await cut_windows_in_thread(
        page.text, context.window_tokens, context.window_overlap, counter
    )
    # Each page of a turn gets its share of what is left. Kept: the judgement after each page, whether it is enough, and
    # the verdict.
    share = len(state["pending"])
    affordable = Budget.from_state(context, state).most(
        context.max_windows * share, kept=kept + share + 1 + LAST_WORD
    )
    return _PageReading(
        page, page.title or target["title"], target["query"], parts, parts[: affordable // share]
    )


def _ask_about_window(
    reading: _PageReading, place: int, state: ResearchState, runtime: Runtime[Context]
) -> Awaitable[Answer[Any]]:
    key = f"{reading.page.id}: {place}"

    async def ask_researcher() -> Answer[Any]:
        return await ask_archived(
            PASSAGES,
            state,
            runtime,
            "passages",
            key,
            window=place + 1,
            windows=len(reading.parts),
            title=quote("title", short_line(reading.title) or "(none)"),
            page=quote("page", reading.windows[place].text, lines=True),
        )

    return save_call(f"passages: {key}", PASSAGES, state, runtime, ask_researcher)


async def _find_evidence(reading: _PageReading, state: ResearchState, *, in_turn: bool) -> JSON:
    """Return the evidence in a page, how many quoted passages it doesn't hold, and the log."""
    from tribunal.retrievers.web.page_reader import find_passage

    context = context_of(state)
    page = reading.page
    windows = reading.windows
    counter = await (await library_of_case(state)).web.counter
    answers = await gather_answers(reading.answers, in_turn=in_turn)
    found: dict[tuple[int, int], JSON] = {}
    rejected = 0
    for window, given in zip(windows, answers, strict=True):
        for named in given.value.passages:
            span = find_passage(window.text, named.passage)
            if span is None:
                rejected += 1
                continue
            start = window.start + span[0]
            end = window.start + span[1]
            if (start, end) not in found:
                found[start, end] = Evidence(
                    id="", query=reading.query, url=page.url, page_id=page.id, title=reading.title,
                    passage=page.text[start:end], stance=named.stance, window=window.index, start=start, end=end,
                ).dump()  # fmt: skip
    log = merge_logs(answers)
    warnings = [counter.warning] if counter.warning else []
    warnings += log["warnings"]
    unread = len(reading.parts) - len(windows)
    if unread:
        limited = len(windows) == context.max_windows
        why = f"max_windows is {context.max_windows}" if limited else "the budget had no more calls"
        warnings.append(
            f"{page.url}: {unread} of its {len(reading.parts)} parts were not read: {why}"
        )
    if page.truncated:
        warnings.append(f"{page.url}: is longer than what is taken of a page; its end was not read")
    if rejected:
        warnings.append(f"{page.url}: {rejected} passages that it doesn't hold were rejected")
    return {
        "passages": list(found.values()),
        "rejected": rejected,
        "calls": log["calls"],
        "warnings": warnings,
    }
