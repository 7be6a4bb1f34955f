"""A first look at a post, off the event loop: what it says, whether that counts, and what its audit is told."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import NamedTuple

from tribunal.errors import BadInput, CallFailed
from tribunal.learnt import learnt
from tribunal.retrievers.first_look.audit import By, note, switched_off
from tribunal.retrievers.first_look.look import Look, Seen, open_look
from tribunal.retrievers.first_look.vectors import same_embedder, vectors_of
from tribunal.schema import Post, Scheme
from tribunal.threshold import Kind

_unwatched: dict[str, str] = {}  # by hash: why this process can't note the audit of a first look any more


class Looked(NamedTuple):
    """What a first look at a post came to.

    `off` says why it is switched off, where it is; `fault` why its embedding gave no vector. Then nothing was seen.
    """

    look: Look
    seen: Seen
    audited: bool
    off: str
    fault: str = ""


async def look_at(folder: str, post: Post) -> Looked:
    """Look at a post.

    Raises:
        BadInput: the folder holds no first look, its embedding can't be had, or its audit can't be read.
    """
    look, off = await asyncio.to_thread(_opened, folder)
    if off:
        return Looked(look, Seen(None, None, "it is switched off"), audited=False, off=off)
    try:
        seen, fault = await _seen(look, post), ""
    except (CallFailed, BadInput) as error:
        seen, fault = Seen(None, None, "its embedding gave no vector"), str(error)
    return Looked(look, seen, look.is_audited(post.id), off="", fault=fault)


def _opened(folder: str) -> tuple[Look, str]:
    look = open_look(folder)
    try:
        return look, _unwatched.get(look.sha) or switched_off(look)
    except sqlite3.Error as error:
        raise BadInput(
            f"first-look: {folder}: its audit can't be read: {error}; see to audit.sqlite there, or leave triage out"
        ) from error


async def _seen(look: Look, post: Post) -> Seen:
    if why := await asyncio.to_thread(look.declines, post):
        return Seen(None, None, why)
    vector = None
    if (by := look.manifest.embedding) is not None:
        vector = (await vectors_of(same_embedder(look.folder, by), by, [post.text]))[0]
    return await asyncio.to_thread(look.says, post.text, vector)


async def audit(triage: str | None, post: Post, scheme: Scheme, hateful: bool | None, *, by: By) -> None:
    """Tell the audit of a first look what a trial, or a person, made of a post that it would have decided.

    A post that it wouldn't have decided, or that isn't of the audit's share, is nothing to it. Where the audit can't be
    noted, the first look is off for this process: unwatched it decides nothing.

    Args:
        triage: the setting.
        post: what was decided on.
        scheme: in force.
        hateful: what it was found to be.
        by: who found it.
    """
    folder = learnt(triage)
    if folder is None or hateful is None:
        return
    try:
        look = await asyncio.to_thread(open_look, folder)
    except BadInput:
        return  # a case that waited for a person may outlive the first look
    if not look.is_audited(post.id):
        return
    try:
        kind = (await _seen(look, post)).kind
    except (CallFailed, BadInput):
        return  # nothing says what it would have decided
    if kind is not None and look.able(kind, scheme):
        await asyncio.to_thread(_note, look, post.id, by, kind, hateful)


def _note(look: Look, post_id: str, by: By, kind: Kind, hateful: bool) -> None:
    try:
        note(look, post_id, by, kind, hateful != (kind == "hateful"))
    except sqlite3.Error as error:
        _unwatched[look.sha] = f"its audit can't be noted: {error}"
