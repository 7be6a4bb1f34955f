"""The vectors of the posts that a first look is fitted on."""

from __future__ import annotations

import asyncio

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.first_look.decided import Decided
from tribunal.eval.first_look.fit import Embedded
from tribunal.models.embeddings import embedder
from tribunal.retrievers.first_look.vectors import embedding_of

_AT_ONCE = 256  # texts that an embedder is given at once, where it doesn't say


async def embedded(posts: Decided, name: str, *, alone: bool) -> Embedded:
    """The vectors of posts. An endpoint's are kept, so that a fit that is asked for again pays for none twice.

    Args:
        posts: to be fitted on.
        name: of the embedding.
        alone: whether words have no weight beside it.

    Raises:
        BadInput: there is no such embedding, or it can't be had here.
        CallFailed: its endpoint couldn't be asked.
    """
    model = await asyncio.to_thread(embedder, name)
    if model is None:
        raise BadInput(
            f"embedding: {name}: is fitted to one set of texts, and a first look sees words without it; leave it out"
        )
    at_once = getattr(model, "at_once", _AT_ONCE)
    starts = range(0, len(posts.texts), at_once)
    made = [await model.embed(posts.texts[start : start + at_once], "query") for start in starts]
    vectors = np.concatenate(made)
    return Embedded(embedding_of(model, vectors.shape[1], alone=alone), vectors)
