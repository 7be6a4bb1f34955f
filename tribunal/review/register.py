"""Statements sent to the register: batch after batch, each statement's result kept, and none sent twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import aiohttp
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import select, update
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from tribunal.core.text import scrub
from tribunal.core.times import database_now
from tribunal.errors import BadInput
from tribunal.review.statements import MOST_IN_A_BATCH
from tribunal.review.table_files import check_address
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, LogEntry, append
from tribunal.store.engine import Store
from tribunal.store.tables import statements

_TIMEOUT = 120.0
_LONGEST = 300.0  # seconds that the register may ask us to wait
_MOST_ANSWER = 8 * 1024**2
_MOST_SAID = 500


class _RegisterBusy(Exception):
    """The register can't take it now; `after` is how long it asks us to wait."""

    def __init__(self, why: str, after: str = "") -> None:
        super().__init__(why)
        self.after = min(float(after), _LONGEST) if after.isascii() and after.isdigit() else None


class _CreatedStatement(BaseModel):
    puid: str
    uuid: str | None = Field(default=None, max_length=500)
    permalink: str | None = Field(default=None, max_length=500)


class _RegisterAnswer(BaseModel):
    """The register's answer to a batch. `errors` has `existing_puids`, and `statement_N` with the faults of each."""

    statements: list[_CreatedStatement] = []
    errors: dict[str, Any] = {}
    message: str = "refused, and it doesn't say why"


class Register:
    """The register at an address: `POST {"statements": […]}` with a bearer token."""

    def __init__(self, url: str, token: str, *, attempts: int = 6) -> None:
        """Use a register; `attempts` is how often a batch is tried where it is busy, broken or out of reach.

        Raises:
            BadInput: the address or the token is none.
        """
        self._url = check_address("to", url)
        self._token = token.strip()
        self._attempts = attempts
        if not self._token or not self._token.isprintable():
            raise BadInput(
                "token: there is none; set TRIBUNAL_DSA_TOKEN to the platform's API token"
            )

    async def send_batch(
        self, session: aiohttp.ClientSession, bodies: list[JSON]
    ) -> dict[str, JSON]:
        """Send a batch.

        Returns:
            by puid what became of each: the columns of `statements` that it changes.

        Raises:
            BadInput: the token is refused, or the register took nothing in all attempts. Nothing was created then that
                isn't found again by its puid.
        """
        ended: dict[str, JSON] = {}
        left = bodies
        while left:
            status, answer = await self._post_with_retries(session, left)
            if status == 201:
                created = {
                    each.puid: each.model_dump(exclude={"puid"}) for each in answer.statements
                }
                return ended | {
                    each["puid"]: {"status": "sent", **created.get(each["puid"], {})}
                    for each in left
                }
            if status in (401, 403):
                raise BadInput(
                    f"token: the register refused it ({status}); see to TRIBUNAL_DSA_TOKEN"
                )
            if status != 422:
                raise BadInput(
                    f"to: {self._url}: answered {status}; see that it is the address of its /statements"
                )
            # None of a batch is created where one is wrong: those that it names are set aside, the others sent again.
            everything = {each["puid"]: self._refused(answer.message) for each in left}
            wrong = self._find_faults(left, answer) or everything
            ended |= wrong
            left = [each for each in left if each["puid"] not in wrong]
        return ended

    def _find_faults(self, bodies: list[JSON], answer: _RegisterAnswer) -> dict[str, JSON]:
        """Return the statements that an answer names: those that are wrong, and those that the register had before."""
        existing = answer.errors.get("existing_puids", ())
        found: dict[str, JSON] = {
            each["puid"]: {"status": "known"} for each in bodies if each["puid"] in existing
        }
        for place, each in enumerate(bodies):
            faults = answer.errors.get(f"statement_{place}")
            if isinstance(faults, dict):
                said = [
                    str(word)
                    for words in faults.values()
                    for word in (words if isinstance(words, list) else [words])
                ]
                found[each["puid"]] = self._refused(" ".join(said))
        return found

    def _refused(self, why: str) -> JSON:
        return {"status": "refused", "error": scrub(why, [self._token])[:_MOST_SAID]}

    async def _post_with_retries(
        self, session: aiohttp.ClientSession, bodies: list[JSON]
    ) -> tuple[int, _RegisterAnswer]:
        usual = wait_exponential(max=60)

        def seconds_until_retry(state: RetryCallState) -> float:
            error: Any = state.outcome and state.outcome.exception()
            return usual(state) if error.after is None else float(error.after)

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=seconds_until_retry,
            retry=retry_if_exception_type(_RegisterBusy),
            reraise=True,
        )
        try:
            return await retrying(self._post_once, session, bodies)
        except _RegisterBusy as error:
            raise BadInput(
                f"to: {self._url}: {error}, {self._attempts} times; the same command sends what is left"
            ) from None

    async def _post_once(
        self, session: aiohttp.ClientSession, bodies: list[JSON]
    ) -> tuple[int, _RegisterAnswer]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        try:
            async with (
                asyncio.timeout(_TIMEOUT),
                session.post(
                    self._url, json={"statements": bodies}, headers=headers, allow_redirects=False
                ) as answer,
            ):
                if answer.status == 429 or answer.status >= 500:
                    raise _RegisterBusy(
                        f"answered {answer.status}", answer.headers.get("Retry-After", "")
                    )
                body = await answer.content.read(_MOST_ANSWER)
        except TimeoutError:
            raise _RegisterBusy("gave no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:  # their texts may hold what was sent
            raise _RegisterBusy(f"could not be reached ({type(error).__name__})") from None
        try:
            return answer.status, _RegisterAnswer.model_validate_json(body)
        except ValidationError:
            return answer.status, _RegisterAnswer()


async def send_statements(store: Store, register: Register) -> Counter[str]:
    """Send every statement that was made and not sent; a result is kept before the next batch goes.

    Returns:
        how many ended so: sent, known (the register had them before) or refused.

    Raises:
        BadInput: as `Register.send_batch`. What was sent before stays kept.
    """
    ended: Counter[str] = Counter()
    waiting = (statements.c.status == "made", statements.c.body.is_not(None))
    query = select(statements.c.body).where(*waiting)
    query = query.order_by(statements.c.file, statements.c.place).limit(MOST_IN_A_BATCH)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        while True:
            bodies = [row["body"] for row in await store.fetch_rows(query)]
            if not bodies:
                return ended
            results = await register.send_batch(session, bodies)
            counts = Counter(str(each["status"]) for each in results.values())
            async with store.transaction() as connection:
                for puid, columns in results.items():
                    change = update(statements).where(statements.c.puid == puid)
                    await connection.execute(change.values(sent=database_now(), **columns))
                sent = LogEntry(kind="statements.sent", subject="register", details=dict(counts))
                await append(connection, OPERATOR, sent)
            ended += counts
