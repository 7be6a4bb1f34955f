"""From the lexicon's groups to the policy's: which are protected, and which category an attack on them comes under."""

from __future__ import annotations

import re
from functools import lru_cache

from tribunal.nodes.rehearsal.groups import GROUPS, UNNAMED
from tribunal.prompts.policy import Policy
from tribunal.schema import Scheme


@lru_cache(maxsize=1024)
def protected_by(policy: Policy, key: str) -> str | None:
    """The policy's name for a group of the lexicon, or None where the policy doesn't protect it."""
    if key in policy.protected_groups:
        return key
    for pattern in (GROUPS.get(key) or UNNAMED).groups:
        for name in policy.protected_groups:
            if re.search(pattern, name, re.IGNORECASE):
                return name
    return None


@lru_cache(maxsize=1024)
def category_for(policy: Policy, scheme: Scheme, key: str) -> str:
    """The hateful category whose name or meaning speaks of a group; the last one where none does.

    Args:
        policy: the policy in force.
        scheme: which of its lists is asked for.
        key: a group of the lexicon, a protected group by its name in the policy, or any words for one.
    """
    hateful = policy.categories(scheme)[1:]
    known = GROUPS.get(key) or (UNNAMED if not key else None)
    patterns = known.categories if known else (*_words_for(key), *_like(key))
    for pattern in patterns:
        for category in hateful:
            if re.search(pattern, f"{category.name}: {category.meaning}", re.IGNORECASE):
                return category.name
    return hateful[-1].name


def _words_for(group: str) -> tuple[str, ...]:
    """Patterns for a group that the lexicon doesn't know: all its words, then each that says something."""
    words = [word for word in group.casefold().split() if word not in ("people", "persons", "status", "and", "of")]
    return tuple(rf"\b{re.escape(word.removesuffix('s'))}" for word in (group.casefold(), *words))


def _like(group: str) -> tuple[str, ...]:
    """What the lexicon says of categories for the head under which a policy's name for a group comes first."""
    found = [
        (place, head.categories)
        for head in GROUPS.values()
        for place, pattern in enumerate(head.groups)
        if re.search(pattern, group, re.IGNORECASE)
    ]
    return min(found)[1] if found else ()
