"""The author of a post: a keyed hash in place of their id, and what was decided on their earlier posts.

The key is the installation's own, a secret of its database. Who has the database without that row can't tell whose a
hash is, and two installations have nothing in common.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

from sqlalchemy import case, distinct, func, select

from tribunal.cases.decision_effects import own_secret
from tribunal.schema import Frozen
from tribunal.store.engine import Store
from tribunal.store.tables import cases, decisions
from tribunal.text import wellformed


class AuthorHistory(Frozen):
    """Counts the earlier decisions on an author's posts: hate, not hate, and those that were reversed on appeal."""

    hate: int = 0
    not_hate: int = 0
    reversed: int = 0


async def load_author_hash(store: Store) -> Callable[[str], str]:
    """Return what hashes an author's id in this database. The id itself is kept nowhere."""
    key = (await own_secret(store, "authors")).encode()
    return lambda author: hmac.new(key, wellformed(author).strip().encode(), hashlib.sha256).hexdigest()


async def hash_author(store: Store, author: str | None) -> str | None:
    """Return the hash that stands for an author's id in this database; None where none is given."""
    return (await load_author_hash(store))(author) if author and author.strip() else None


async def count_earlier_decisions(store: Store, author_sha: str, *, besides: str) -> AuthorHistory:
    """Return the counts of an author's decided cases, without the case `besides`."""
    theirs = cases.c.author_sha == author_sha, cases.c.outcome == "verdict", cases.c.id != besides

    def number(hateful: bool) -> Any:
        return func.coalesce(func.sum(case((cases.c.hateful.is_(hateful), 1), else_=0)), 0)

    counts = select(number(True).label("hate"), number(False).label("not_hate")).where(*theirs)
    reversals = (
        select(func.count(distinct(decisions.c.case_id)))
        .join(cases, cases.c.id == decisions.c.case_id)
        .where(*theirs, decisions.c.result == "reversed")
    )
    [row] = await store.fetch_rows(counts)
    return AuthorHistory(**row, reversed=int(await store.fetch_value(reversals)))
