"""Cases that stand in a replica's name, and that it doesn't try."""

from __future__ import annotations

import logging

from sqlalchemy import and_, case, or_, select, update

from tribunal.service.replica.worker import Worker
from tribunal.store.engine import Store
from tribunal.store.tables import cases

_LOG = logging.getLogger(__name__)


class Strays:
    """Finds them. The database wrote that a replica has a case, and its answer was lost; or a trial ended while the
    database was away. Nobody else takes such a case up, since its replica is alive."""

    def __init__(self, store: Store, replica: str, worker: Worker) -> None:
        self._store, self._replica, self._worker = store, replica, worker
        self._seen: set[tuple[str, int]] = set()

    async def look(self) -> None:
        """Give back those that were there at the last look, too: one that was only just taken up is no such case."""
        mine = and_(cases.c.status == "running", cases.c.owner == self._replica)
        async with self._store.reading() as connection:
            rows = (await connection.execute(select(cases.c.id, cases.c.attempt).where(mine))).all()
        found = {(case_id, attempt) for case_id, attempt in rows if case_id not in self._worker.trying}
        for case_id, attempt in found & self._seen:
            await self._give_back(and_(mine, cases.c.id == case_id, cases.c.attempt == attempt))
            _LOG.warning("case %s: was in this replica's name, and not tried", case_id)
        self._seen = found - self._seen

    async def _give_back(self, where: object) -> None:
        single = or_(cases.c.batch_id.is_(None), cases.c.answer.is_not(None))
        status = case((single, "queued"), else_="waiting")
        async with self._store.transaction() as connection:
            await connection.execute(update(cases).where(where).values(status=status, owner=None))  # type: ignore[arg-type]
