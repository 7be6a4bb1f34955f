"""DuckDuckGo, through the class `DDGS` of `ddgs`."""

from __future__ import annotations

import math
from typing import Any

from tribunal.retrievers.web.search.engine import SECONDS, SearchFailed, blocking
from tribunal.retrievers.web.search.hits import Hit, hits_of


class DuckDuckGo:
    """DuckDuckGo's page without scripts, through `ddgs`.

    The library says "No results found." where DuckDuckGo found nothing, and where it blocks us. A block must not pass
    as an answer, so both are a failure, and the next engine is asked.
    """

    name = "duckduckgo"

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        found = await blocking(lambda: _search(query, self._seconds))
        return hits_of(query, self.name, ((each["href"], each["title"], each["body"]) for each in found), k)


def _search(query: str, seconds: float) -> list[dict[str, Any]]:
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException

    try:
        found: list[dict[str, Any]] = DDGS(timeout=math.ceil(seconds)).text(
            query, region="wt-wt", max_results=None, backend="duckduckgo"
        )
    except DDGSException as error:
        if "no results" in str(error).lower():
            raise SearchFailed("bad_answer", "nothing found, or it blocks us: ddgs doesn't say which") from error
        raise
    return found
