"""One attempt: a signed POST, and what is made of its answer. Nothing of the answer is kept but its status."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import NamedTuple

import aiohttp
from standardwebhooks import Webhook

LONGEST_PAUSE = 86_400.0  # seconds that an endpoint may ask us to wait


class Answer(NamedTuple):
    """How an attempt went. `error` is None where it was taken."""

    status: int | None
    error: str | None
    retry_after: float | None = None


class Sender:
    """Sends messages; close it.

    Args:
        timeout: seconds for an attempt, from the address look-up to the answer's status.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def send(self, url: str, secret: str, message_id: str, body: str) -> Answer:
        """Send a message once. Redirects are not followed, and the answer's body is not read."""
        now = datetime.now(UTC)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tribunal/{version('tribunal')}",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret).sign(message_id, now, body),
        }
        if self._session is None:
            # No cookies: one endpoint's would go to another on its host.
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session.post(url, data=body.encode(), headers=headers, allow_redirects=False) as answer,
            ):
                return _read(answer.status, answer.headers.get("Retry-After"))
        except TimeoutError:
            return Answer(None, f"no answer within {self._timeout:g} seconds")
        except (aiohttp.ClientError, OSError, ValueError) as error:  # their texts may hold the address
            return Answer(None, f"could not be sent: {type(error).__name__}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _read(status: int, retry_after: str | None) -> Answer:
    if 200 <= status < 300:
        return Answer(status, None)
    if 300 <= status < 400:
        return Answer(status, f"answered {status}; redirects are not followed")
    return Answer(status, f"answered {status}", _seconds(retry_after))


def _seconds(retry_after: str | None) -> float | None:
    """What `Retry-After` asks for: a number of seconds, or a date."""
    if not retry_after:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after[:9]), LONGEST_PAUSE)
    try:
        return max(0.0, min(parsedate_to_datetime(retry_after).timestamp() - time.time(), LONGEST_PAUSE))
    except (ValueError, OverflowError):
        return None
