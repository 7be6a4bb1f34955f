"""A search engine of one's own: an object that another package brings."""

from __future__ import annotations

from typing import Any

from tribunal.errors import BadInput
from tribunal.plugins import plugin
from tribunal.retrievers.web.search.engine import Engine, in_our_terms
from tribunal.retrievers.web.search.hits import Hit, hits_of


class Plugin:
    """An engine that another package brings. What it finds is checked, and what it raises is a failure, as of ours."""

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self._engine = engine

    async def search(self, query: str, k: int) -> list[Hit]:
        try:
            found: list[Any] = await self._engine.search(query, k)
            rows = [(hit.url, hit.title, hit.snippet) for hit in found]
        except Exception as error:
            raise in_our_terms(error) from error
        return hits_of(query, self.name, rows, k)


def brought(name: str) -> Engine | None:
    """The engine of an entry point of the group `tribunal.search`, or of a place, `module:object`.

    Returns:
        None where nothing of this name is registered and it isn't a place.

    Raises:
        BadInput: it can't be imported, or is no engine.
    """
    found = plugin("tribunal.search", name, Engine, "search")  # type: ignore[type-abstract]
    if isinstance(found, type):
        raise BadInput(f"search: {name}: is a class, and not an engine; name an instance of it")
    return found and Plugin(found)
