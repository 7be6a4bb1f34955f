"""What is said where a limit of the research is reached: which one it was, and how much was left out."""

from __future__ import annotations

from tribunal.context import Context
from tribunal.nodes.antihate.roles import LONGEST_QUERY, MOST_QUERIES


def within_query_limits(queries: list[str], turn: int) -> tuple[list[str], list[str]]:
    """The queries that are searched, none longer than it may be; and warnings."""
    kept, warnings = queries[:MOST_QUERIES], []
    if beyond := len(queries) - len(kept):
        warnings.append(
            f"turn {turn}: {beyond} of {len(queries)} queries were not searched: the limit is {MOST_QUERIES}"
        )
    if long := sum(len(query) > LONGEST_QUERY for query in kept):
        warnings.append(f"turn {turn}: {long} of {len(kept)} queries were cut at {LONGEST_QUERY} characters")
    return list(dict.fromkeys(query[:LONGEST_QUERY] for query in kept)), warnings


def hits_beyond(left_out: int, turn: int, context: Context) -> list[str]:
    """A warning, where engines sent more results than were wanted."""
    if not left_out:
        return []
    return [f"turn {turn}: {left_out} search results were not looked at: hits is {context.hits} for each query"]


def pages_beyond(wanted: int, turn: int, context: Context) -> list[str]:
    """A warning, where more pages were wanted than may be read in a turn."""
    beyond = wanted - context.max_pages
    if beyond <= 0:
        return []
    return [f"turn {turn}: {beyond} of {wanted} pages were not read: max_pages is {context.max_pages}"]


def parts_beyond(url: str, parts: int, read: int, context: Context) -> list[str]:
    """A warning, where parts of a page were not read: for the limit on windows, or for the budget."""
    if read >= parts:
        return []
    why = f"max_windows is {context.max_windows}" if read == context.max_windows else "the budget had no more calls"
    return [f"{url}: {parts - read} of its {parts} parts were not read: {why}"]
