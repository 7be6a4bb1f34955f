"""What is said in trials, for those who listen to them from any replica."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tribunal.schema import JSON
from tribunal.service.replica.away import AWAY
from tribunal.service.replica.caseload import Caseload, Held

_LOG = logging.getLogger(__name__)
_MOMENT = 0.1  # seconds for which it is gathered


class Said:
    """What is said in one trial. Attributes: `rows`, what of it isn't written down yet."""

    def __init__(self, held: Held) -> None:
        self.rows: list[JSON] = []
        self._held, self._number = held, held.attempt * 100_000
        self.unwritable = False

    def add(self, event: JSON) -> None:
        """An event of its stream."""
        self.rows.append(
            {"case_id": self._held.id, "number": self._number, "attempt": self._held.attempt, "event": event}
        )
        self._number += 1


class Teller:
    """Writes down what is said in all trials of a replica, together and a moment later, so that it holds nothing up.

    What is left when a trial ends is written with its record.
    """

    def __init__(self, caseload: Caseload) -> None:
        self._caseload = caseload
        self._trials: set[Said] = set()
        self._telling: asyncio.Task[None] | None = None

    @contextmanager
    def trial(self, held: Held) -> Iterator[Said]:
        """While this is open, what is said in a trial is written down."""
        said = Said(held)
        self._trials.add(said)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._now_and_then())
        try:
            yield said
        finally:
            self._trials.discard(said)

    async def _now_and_then(self) -> None:
        while self._trials:
            await asyncio.sleep(_MOMENT)
            trials = [said for said in self._trials if said.rows and not said.unwritable]
            try:
                await self._tell(trials)
            except AWAY:
                continue  # it is written later
            except Exception:  # noqa: BLE001 (something that one trial said can't be written: that trial's end will tell)
                for said in trials:
                    await self._alone(said)

    async def _alone(self, said: Said) -> None:
        try:
            await self._tell([said])
        except AWAY:
            return
        except Exception as error:  # noqa: BLE001 (as above)
            _LOG.warning("what is said in a trial can't be written: %s", type(error).__name__)
            said.unwritable = True

    async def _tell(self, trials: list[Said]) -> None:
        rows = {said: said.rows[:] for said in trials}
        if trials:  # what is written twice has the same number
            await self._caseload.tell([row for each in rows.values() for row in each])
        for said, written in rows.items():
            del said.rows[: len(written)]
