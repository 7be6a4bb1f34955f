"""The vectors that a first look takes beside words: by the embedding that it was fitted with, and by no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tribunal.errors import BadInput, CallFailed
from tribunal.retrievers.first_look.manifest import Embedding
from tribunal.trust import stored_settings

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from tribunal.models.embeddings import Embedder, Vectors

    Vector = npt.NDArray[np.float32]


def embedding_of(model: Embedder, dimension: int, *, alone: bool) -> Embedding:
    """What a manifest says of an embedder."""
    return Embedding(name=model.name, version=_version(model), dimension=dimension, alone=alone)


def same_embedder(folder: Path, wanted: Embedding) -> Embedder:
    """The embedder that a first look was fitted with.

    Raises:
        BadInput: it can't be had, or is another one by now.
    """
    from tribunal.models.embeddings import embedder

    # A folder may be somebody else's: what its manifest names runs no code that the operator hasn't allowed.
    with stored_settings():
        model = embedder(wanted.name)
    if model is None:
        raise BadInput(
            f"first-look: {folder}: {wanted.name} is fitted to one set of texts, and is none for a first look; {_AGAIN}"
        )
    version = _version(model)
    if version != wanted.version:
        raise BadInput(
            f"first-look: {folder}: was fitted with {wanted.name} {wanted.version}, and here is {version}; install "
            f"that version, or {_AGAIN}"
        )
    if model.dimension is not None and model.dimension != wanted.dimension:
        raise BadInput(f"first-look: {folder}: {_other_length(wanted, model.dimension)}")
    return model


async def vectors_of(model: Embedder, wanted: Embedding, texts: Sequence[str]) -> Vectors:
    """The vectors of texts, a row each.

    Raises:
        CallFailed: the endpoint couldn't be asked, or its vectors are of another length than those of the fit.
    """
    vectors = await model.embed(texts, "query")
    if vectors.shape[1] != wanted.dimension:
        raise CallFailed(_other_length(wanted, vectors.shape[1]), kind="bad_output", model=model.name)
    return vectors


def _version(model: Embedder) -> str | None:
    """Of an embedder that runs on this machine, where it says; an endpoint says nothing of its model's."""
    said = getattr(model, "version", None)
    return None if said is None else str(said)


def _other_length(wanted: Embedding, dimension: int) -> str:
    return (
        f"{wanted.name} gives vectors of {dimension} numbers, and the first look was fitted with ones of "
        f"{wanted.dimension}: the model behind the name has changed; {_AGAIN}"
    )


_AGAIN = "fit the first look again with `tribunal first-look fit`"
