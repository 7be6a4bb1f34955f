"""The search wrappers of `langchain-community`."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError

from tribunal.errors import BadInput
from tribunal.parsed import from_json
from tribunal.retrievers.web.search.engine import MAX_BYTES, SearchFailed, blocking
from tribunal.retrievers.web.search.hits import MAX_ROWS, Hit, hits_of, words
from tribunal.scrub import scrub


class LangChain:
    """A search wrapper of `langchain-community`, by the name of its class; it finds its keys in the environment.

    One that `langchain_community.utilities` doesn't export goes by its module: `tavily_search.TavilySearchAPIWrapper`.

    Raises:
        BadInput: the extra isn't installed, it has no such wrapper, or the wrapper lacks a key or a package.
    """

    def __init__(self, wrapper: str) -> None:
        self.name = f"langchain:{wrapper}"
        self._wrapper = _wrapper(wrapper)
        fields = vars(self._wrapper).items()
        held = [
            getattr(value, "get_secret_value", lambda value=value: value)() for name, value in fields if _SECRET(name)
        ]
        self._secrets = [value for value in held if isinstance(value, str)]

    async def search(self, query: str, k: int) -> list[Hit]:
        answer = await blocking(lambda: _ask(self._wrapper, query, k), self._secrets)
        return hits_of(query, self.name, rows_of(answer), k)


_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE).search


def _wrapper(name: str) -> Any:
    if find_spec("langchain_community") is None:
        raise BadInput(
            f"search: langchain:{name}: langchain-community is not installed; it comes with the extra `community`: "
            "pip install 'tribunal[community]'"
        )
    # Its utilities hold more than search, and some of them run what they are given.
    if not re.fullmatch(r"(?:\w+\.)?\w*(?:Search|Serp)\w*", name):
        raise BadInput(f"search: langchain:{name}: not a search wrapper; give a class such as BraveSearchWrapper")
    try:
        # It announces its retirement whenever it is imported; the README says so once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, _, class_name = f"langchain_community.utilities.{name}".rpartition(".")
            return getattr(import_module(module), class_name)()
    except AttributeError as error:
        raise BadInput(f"search: langchain:{name}: langchain_community.utilities has no such wrapper") from error
    except (ImportError, ValueError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise BadInput(f"search: langchain:{name}: can't be set up: {words(scrub(why, ()), 300)}") from error


def _ask(wrapper: Any, query: str, k: int) -> Any:
    """What a wrapper answers; they agree on names, and on little else."""
    results = getattr(wrapper, "results", None)
    if results is None:
        return wrapper.run(query)
    takes = inspect.signature(results).parameters
    many = next((name for name in ("max_results", "num_results") if name in takes), None)
    return results(query, **({many: k} if many else {}))


def rows_of(answer: Any) -> list[tuple[Any, Any, Any]]:
    """(url, title, snippet) from a list of mappings or documents, a mapping that holds one, or either as JSON.

    Raises:
        SearchFailed: it is none of these.
    """
    if isinstance(answer, str):
        try:
            answer = from_json(answer[:MAX_BYTES])
        except ValueError as error:
            raise SearchFailed("bad_answer", "the wrapper answered in prose, without addresses") from error
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in ("organic", "organic_results", "results") if name in answer), [])
    if not isinstance(answer, list):
        raise SearchFailed("bad_answer", f"the wrapper answered a {type(answer).__name__}, not a list of results")
    return [_row(each) for each in answer[:MAX_ROWS]]


def _row(each: Any) -> tuple[Any, Any, Any]:
    fields = each if isinstance(each, Mapping) else {**getattr(each, "metadata", {})}
    text = getattr(each, "page_content", None)
    return (
        _first(fields, "link", "url", "href", "source"),
        fields.get("title"),
        text or _first(fields, "snippet", "content", "body", "description", "summary"),
    )


def _first(fields: Mapping[Any, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name)), None)
