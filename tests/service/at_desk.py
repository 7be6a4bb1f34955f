"""Somebody at the desk without a browser: their cookies, the pages they read, the forms they send."""

from __future__ import annotations

from typing import Any

import httpx
from lxml import html  # type: ignore[import-untyped]
from sqlalchemy import update

from tribunal.schema import JSON
from tribunal.store.tables import cases

HERE = "http://127.0.0.1"
ALL = {"settings": {"review": True, "review_rule": ["all"]}, "graph": "tribunal", "takeover": 3.0}


class Page:
    """A page as it was answered."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.status = response, response.status_code
        self.tree: Any = html.fromstring(response.text or "<p>nothing</p>")

    @property
    def words(self) -> str:
        """What is to be read on it, on one line."""
        return " ".join(str(self.tree.text_content()).split())

    @property
    def heading(self) -> str:
        [found] = self.tree.xpath("//h1")
        return str(found.text_content())

    @property
    def wrong(self) -> str:
        return " ".join(
            each.text_content().strip() for each in self.tree.xpath("//*[@role='alert']")
        )

    @property
    def said(self) -> str:
        return " ".join(
            each.text_content().strip() for each in self.tree.xpath("//*[@role='status']")
        )

    def value(self, name: str) -> str:
        """What a field holds."""
        fields = self.tree.xpath(
            f"//*[@name='{name}' and not(@type='hidden') and (not(@type='radio') or @checked)]"
        )
        if not fields:
            return ""
        [field] = fields
        # as HTML has it at the begin of a textarea
        return str(field.value or "").removeprefix("\n")

    def buttons(self) -> list[str]:
        return [
            str(each.get("value")) for each in self.tree.xpath("//main//button[@name='action']")
        ]


class Somebody:
    """A person with a browser of their own, which sends what browsers send."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.page: Page

    async def get(self, path: str, **more: Any) -> Page:
        """Go to a page of the desk, and wherever it leads."""
        got = await self.client.get(path, follow_redirects=True, **more)
        self.page = Page(got)
        return self.page

    async def send(self, action: str = "", at: str = "", **typed: str) -> Page:
        """Fill a form of the page in and press the button of this action; `at` is a part of the form's address."""
        forms = [
            each for each in self.page.tree.forms if each.method == "POST" and at in each.action
        ]
        form = next(each for each in forms if "sign-out" not in each.action or at == "sign-out")
        fields = {name: value.removeprefix("\n") for name, value in form.form_values()} | typed
        fields |= {"action": action} if action else {}
        where = form.action or str(self.page.response.url)
        got = await self.client.post(
            where, data=fields, headers={"Origin": HERE}, follow_redirects=True
        )
        self.page = Page(got)
        return self.page

    async def sign_in(self, key: str = "", named: str = "", **more: Any) -> Page:
        await self.get("/desk/sign-in", **more)
        typed = {"named": named} if self.page.tree.xpath("//*[@name='named']") else {}
        return await self.send(at="sign-in", **typed, **({"key": key} if key else {}))

    @property
    def case(self) -> str:
        """The id of the case that they have before them."""
        return str(self.page.response.url.path).rpartition("/")[2]


def somebody(app: Any, address: str = "127.0.0.1", **more: Any) -> Somebody:
    """A person at an application of this process."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 40_000))
    return Somebody(httpx.AsyncClient(transport=transport, base_url=HERE, timeout=60, **more))


async def signed_in(app: Any, key: str = "", named: str = "") -> Somebody:
    """A person at an application of this process, who has signed in."""
    person = somebody(app)
    await person.sign_in(key, named if key else named or "kim")
    return person


async def post(client: httpx.AsyncClient, text: str, key: str = "", **more: Any) -> JSON:
    """A post that then waits for a person; gives its case."""
    headers = {"X-API-Key": key} if key else {}
    got = await client.post("/v1/judge?wait=60", json={"text": text, **more}, headers=headers)
    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
    return {"id": got.headers["tribunal-case"], "record": got.json()}


async def count_rehearsed(app: Any) -> None:
    """Let the cases that the rehearsal model decided count, as those of a real model do."""
    async with app.state.replica.store.transaction() as connection:
        await connection.execute(update(cases).values(practice=None))
