"""Statements sent to the register: batch after batch, each statement's result kept, and none sent twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import aiohttp
from sqlalchemy import select, update
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential

from tribunal.errors import BadInput
from tribunal.exports.dsa.statement import MOST_IN_A_BATCH
from tribunal.exports.reaching import check_address
from tribunal.parsed import from_json
from tribunal.schema import JSON
from tribunal.scrub import scrub
from tribunal.store.audit import OPERATOR, Entry, append
from tribunal.store.engine import Store
from tribunal.store.tables import statements

ATTEMPTS, TIMEOUT = 6, 120.0
_LONGEST = 300.0  # seconds that the register may ask us to wait
_MOST_ANSWER = 8 * 1024**2
_MOST_SAID = 500


class _Again(Exception):
    """The register can't take it now; `after` is how long it asks us to wait."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Register:
    """The register at an address: `POST {"statements": […]}` with a bearer token.

    Args:
        url: of the API's `/statements`.
        token: the platform's.
        attempts: how often a batch is tried where the register is busy, broken or out of reach.
        longest_pause: seconds between two tries, at most, where the register doesn't ask for more.

    Raises:
        BadInput: the address or the token is none.
    """

    def __init__(self, url: str, token: str, *, attempts: int = ATTEMPTS, longest_pause: float = 60.0) -> None:
        self._url, self._token = check_address("to", url), token.strip()
        if not self._token or not self._token.isprintable():
            raise BadInput("token: there is none; set TRIBUNAL_DSA_TOKEN to the platform's API token")
        self._attempts, self._usual = attempts, wait_exponential(multiplier=1, max=longest_pause)

    async def take(self, session: aiohttp.ClientSession, bodies: list[JSON]) -> dict[str, JSON]:
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
            status, body = await self._posted(session, left)
            if status == 201:
                return ended | _created(left, body)
            if status in (401, 403):
                raise BadInput(f"token: the register refused it ({status}); see to TRIBUNAL_DSA_TOKEN")
            if status != 422:
                raise BadInput(f"to: {self._url}: answered {status}; see that it is the address of its /statements")
            # None of a batch is created where one is wrong: those that it names are set aside, the others sent again.
            wrong = _faults(left, body)
            if not wrong:
                said = self._short(body.get("message") or "refused, and it doesn't say why")
                wrong = {each["puid"]: {"status": "refused", "error": said} for each in left}
            ended |= {puid: {**each, "error": self._short(each.get("error"))} for puid, each in wrong.items()}
            left = [each for each in left if each["puid"] not in wrong]
        return ended

    def _short(self, said: Any) -> str | None:
        return None if said is None else scrub(str(said), [self._token])[:_MOST_SAID]

    async def _posted(self, session: aiohttp.ClientSession, bodies: list[JSON]) -> tuple[int, JSON]:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=self._wait,
            retry=retry_if_exception_type(_Again),
            reraise=True,
        )
        try:
            return await retrying(self._once, session, bodies)
        except _Again as error:
            raise BadInput(
                f"to: {self._url}: {error}, {self._attempts} times; the same command sends what is left"
            ) from None

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.after if isinstance(error, _Again) else None
        return asked if asked is not None else self._usual(state)

    async def _once(self, session: aiohttp.ClientSession, bodies: list[JSON]) -> tuple[int, JSON]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                session.post(self._url, json={"statements": bodies}, headers=headers, allow_redirects=False) as answer,
            ):
                if answer.status == 429 or answer.status >= 500:
                    raise _Again(f"answered {answer.status}", _seconds(answer.headers.get("Retry-After")))
                return answer.status, _read(await answer.content.read(_MOST_ANSWER))
        except TimeoutError:
            raise _Again("gave no answer in time") from None
        except (aiohttp.ClientError, OSError) as error:  # their texts may hold what was sent
            raise _Again(f"could not be reached ({type(error).__name__})") from None


def _read(raw: bytes) -> JSON:
    try:
        held = from_json(raw)
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _seconds(retry_after: str | None) -> float | None:
    return (
        min(float(retry_after), _LONGEST) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
    )


def _created(bodies: list[JSON], answer: JSON) -> dict[str, JSON]:
    told = answer.get("statements")
    by_puid = {str(each.get("puid")): each for each in told if isinstance(each, dict)} if isinstance(told, list) else {}
    ended = {}
    for each in bodies:
        held = by_puid.get(each["puid"], {})
        known = {name: str(held[name])[:_MOST_SAID] for name in ("uuid", "permalink") if held.get(name) is not None}
        ended[each["puid"]] = {"status": "sent", **known}
    return ended


def _faults(bodies: list[JSON], answer: JSON) -> dict[str, JSON]:
    """The statements that an answer names: those that are wrong, and those that the register had before."""
    errors = answer.get("errors")
    if not isinstance(errors, dict):
        return {}
    sent = {each["puid"] for each in bodies}
    found: dict[str, JSON] = {}
    existing = errors.get("existing_puids")
    for puid in existing if isinstance(existing, list) else ():
        if puid in sent:
            found[puid] = {"status": "known"}
    for place, each in enumerate(bodies):
        wrong = errors.get(f"statement_{place}")
        if isinstance(wrong, dict):
            said = [str(word) for words in wrong.values() for word in (words if isinstance(words, list) else [words])]
            found[each["puid"]] = {"status": "refused", "error": " ".join(said)}
    return found


async def send(store: Store, register: Register) -> Counter[str]:
    """Send every statement that was made and not sent; a result is kept before the next batch goes.

    Returns:
        how many ended so: sent, known (the register had them before) or refused.

    Raises:
        BadInput: as `Register.take`. What was sent before stays kept.
    """
    ended: Counter[str] = Counter()
    waiting = (statements.c.status == "made", statements.c.body.is_not(None))
    query = select(statements.c.puid, statements.c.body).where(*waiting)
    query = query.order_by(statements.c.file, statements.c.place).limit(MOST_IN_A_BATCH)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        while True:
            async with store.reading() as connection:
                bodies = [row.body for row in await connection.execute(query)]
            if not bodies:
                return ended
            results = await register.take(session, bodies)
            counts = Counter(str(each["status"]) for each in results.values())
            await _keep(store, results, counts)
            ended += counts


async def _keep(store: Store, results: dict[str, JSON], counts: Counter[str]) -> None:
    now = time.time()
    async with store.transaction() as connection:
        for puid, columns in results.items():
            change = update(statements).where(statements.c.puid == puid).values(sent=now, **columns)
            await connection.execute(change)
        await append(connection, OPERATOR, Entry(kind="statements.sent", subject="register", details=dict(counts)))
