"""A first look as a stage of a cascade: what it says of the posts of a run, those that it was fitted on left out."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import near_duplicates
from tribunal.eval.measures.sequence import LabelledPosts
from tribunal.eval.measures.texts_of_run import PostOfRun, posts_of_run
from tribunal.eval.runs.likeness import signature
from tribunal.learnt import learnt
from tribunal.retrievers.first_look.look import Look
from tribunal.retrievers.first_look.manifest import read_manifest, read_posts
from tribunal.retrievers.first_look.vectors import same_embedder, vectors_of
from tribunal.schema import JSON, Scheme

if TYPE_CHECKING:
    import numpy.typing as npt

    from tribunal.eval.measures.columns import Bools
    from tribunal.threshold import Kind

_AT_ONCE = 1_000  # posts whose vectors are asked for at once


class FittedOn(NamedTuple):
    """The signatures of posts that a first look was fitted on."""

    posts: npt.NDArray[np.uint8]

    def holds(self, written: Sequence[str]) -> Bools:
        """Of each signature whether its text is one of these, or nearly the same; of none it isn't known, so it is."""
        own = [b64encode(row.tobytes()).decode() for row in self.posts]
        cluster = near_duplicates([*own, *written])
        found: Bools = np.isin(cluster[len(own) :], cluster[: len(own)])
        found |= ~np.array(written, dtype=bool)
        return found


def signed(folder: Path, ids: Sequence[str], written: Sequence[str], data: Path | None) -> list[str]:
    """The signature of each post of a run, made of its text where none is written and the text can be had.

    Args:
        folder: the run's.
        ids: the posts, a row each.
        written: the signature of each, as its results have it.
        data: the files of its data set, where its results hold no texts.

    Raises:
        BadInput: none has a signature, and there are no texts.
    """
    if all(written):
        return list(written)
    try:
        texts = {post.id: post.text for post in posts_of_run(folder, data)}
    except BadInput:
        if not any(written):
            raise
        return list(written)  # a text without words has none
    return [held or signature(texts.get(post, "")) for post, held in zip(ids, written, strict=True)]


def fitted_on(look: Look) -> FittedOn:
    """What a first look was fitted on.

    Raises:
        BadInput: the file is missing, or was changed.
    """
    return FittedOn(read_posts(look.folder, look.manifest))


def fitted_on_by_run(run: JSON, folder: Path) -> FittedOn | str:
    """What the first look of a run was fitted on; else why that isn't known, and an empty word where it had none."""
    pinned = (run.get("first_look") or {}).get("sha")
    if pinned is None:
        return ""
    lost = (
        f"{folder}: a first look took part, whose files aren't there any more as they were, so that posts that it was "
        "fitted on can't be left out; where there are any, the figures flatter it"
    )
    try:
        where = Path(learnt((run.get("settings") or {}).get("triage")) or "").expanduser()
        manifest, sha = read_manifest(where)
        return FittedOn(read_posts(where, manifest)) if sha == pinned else lost
    except BadInput:
        return lost


def said_by(
    look: Look, folder: Path, ids: Sequence[str], hate: Bools, scheme: Scheme, data: Path | None
) -> LabelledPosts:
    """What a first look says of posts, as it would in force: those of its audit go on, as those that it declines do.

    Args:
        look: the first look.
        folder: of a run over these posts.
        ids: the posts, a row each.
        hate: the gold of each.
        scheme: in which it would decide.
        data: the files of the run's data set, where its results hold no texts.

    Raises:
        BadInput: there are no texts, or it decides none of these posts.
        CallFailed: its embedding couldn't be asked.
    """
    wanted = set(ids)
    posts = {post.id: post for post in posts_of_run(folder, data) if post.id in wanted}
    kinds = asyncio.run(_kinds(look, [posts[post] for post in ids]))
    decided = np.array([look.able(kind, scheme) for kind in kinds]) & ~np.array([look.is_audited(post) for post in ids])
    if not decided.any():
        raise BadInput(f"first-look: {look.folder}: decides none of these {len(ids):,} posts; leave it out")
    hateful = np.array([kind == "hateful" for kind in kinds])
    wrong = hateful != hate
    return LabelledPosts(np.full(len(ids), np.nan), decided, hateful, wrong, wrong)


async def _kinds(look: Look, posts: Sequence[PostOfRun]) -> list[Kind | None]:
    seen = [not (post.why_not or look.declines_text(post.text, post.whole.get("language"))) for post in posts]
    rows = np.flatnonzero(seen)
    kinds: list[Kind | None] = [None] * len(posts)
    by = look.manifest.embedding
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE].tolist()
        texts = [posts[at].text for at in some]
        vectors = None if by is None else await vectors_of(same_embedder(look.folder, by), by, texts)
        for number, at in enumerate(some):
            kinds[at] = look.says(texts[number], None if vectors is None else vectors[number]).kind
    return kinds
