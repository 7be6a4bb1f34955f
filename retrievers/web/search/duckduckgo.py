"""DuckDuckGo, through `ddgs`."""

from __future__ import annotations

import math
from typing import Any

from tribunal.retrievers.web.search.engine import SECONDS, blocking
from tribunal.retrievers.web.search.hits import Hit, hits_of


class DuckDuckGo:
    """DuckDuckGo's page without scripts, through `ddgs`."""

    name = "duckduckgo"

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        found = await blocking(lambda: _found(query, self._seconds))
        return hits_of(query, self.name, ((each.href, each.title, each.body) for each in found), k)


def _found(query: str, seconds: float) -> list[Any]:
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException, RatelimitException

    class Strict(Duckduckgo):
        """The library takes every status but 200 for "no results", so a block would pass as an answer."""

        def request(self, *args: Any, **kwargs: Any) -> Any:
            answer = self.http_client.request(*args, **kwargs)
            if answer.status_code in (202, 403, 418, 429) or "anomaly-modal" in answer.text:
                raise RatelimitException(
                    f"HTTP {answer.status_code}: it takes us for a robot, and wants to be asked less"
                )
            if answer.status_code != 200:
                raise DDGSException(f"HTTP {answer.status_code}")
            return answer.text

    return Strict(timeout=math.ceil(seconds)).search(query, region="wt-wt") or []
