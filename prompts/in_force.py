"""The prompts of a case: those that lie in it, or in the folder that its settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tribunal.contents import meet, met, prompts_in, written
from tribunal.errors import BadInput, WrongState
from tribunal.prompts.sets import PromptSet, prompt_set, set_of_case, shipped, with_system

_KEPT = 8  # versions of one folder: cases that began with an older one end with it


def prompts_begun(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name and the hash of the prompts that a case began with; empty where it has none.

    Raises:
        WrongState: what lies there is something else.
    """
    begun = state.get("prompts") or {}
    if not isinstance(begun, Mapping):
        raise WrongState(f"prompts: {str(begun)[:80]!r}: is no JSON object; give the name and the sha of the prompts")
    return begun


async def prompts_of(state: Mapping[str, Any], folder: str | None) -> PromptSet:
    """The prompts of a case: those that lie in it, so that a folder that is edited or moved since changes nothing.

    Args:
        state: the case.
        folder: the setting `prompts`.

    Raises:
        BadInput: they are none, or a client of this server may not set them. As `prompt_set`, where none are there.
    """
    named = prompts_begun(state)
    system = (state.get("context") or {}).get("system")
    if not isinstance(system, str | None):
        raise BadInput(
            f"context.system: {type(system).__name__}: is no name; give the name of a system, or leave it out"
        )
    own = None
    if folder is not None:
        own = await prompts_in(state, folder, lambda: prompts_in_force(folder, afresh=True, system=system))
    if own is None:
        made = await prompts_in_force(folder, named.get("sha"), system=system)
    else:
        at_hand = _held.get((folder or "", system), {}).get(named.get("sha"))
        if at_hand is not None and at_hand.own == own:
            made = at_hand
        else:
            texts = tuple(sorted(own.items()))
            made = await asyncio.to_thread(set_of_case, str(named.get("name") or ""), texts, system)
    if met("prompts", made.sha) is None:
        meet("prompts", made.sha, written(made.sources))
    return made


async def prompts_in_force(
    folder: str | None, sha: str | None = None, *, afresh: bool = False, system: str | None = None
) -> PromptSet:
    """`prompt_set`, off the event loop, and read once.

    Args:
        folder: the setting `prompts`.
        sha: which one a case began with, if it has begun; while this process holds that one, it is the one.
        afresh: look whether the folder has changed; so every case starts from it as it stands then.
        system: the system of one's own that the case is tried by, if any.

    Raises:
        BadInput: as `prompt_set`.
    """
    if folder is None:
        ready = system is None and shipped.cache_info().currsize
        return shipped() if ready else await asyncio.to_thread(with_system, system)
    held = _held.setdefault((folder, system), {})
    if sha in held:
        return held[sha]
    if afresh or not held:
        made = await asyncio.to_thread(prompt_set, folder, system)
        made = held.pop(made.sha, made)
        held[made.sha] = made
        while len(held) > _KEPT:
            del held[next(iter(held))]
    return held[next(reversed(held))]


_held: dict[tuple[str, str | None], dict[str | None, PromptSet]] = {}
