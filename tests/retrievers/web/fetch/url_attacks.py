"""URLs that are not what they look like, and redirects to where nobody should go."""

from __future__ import annotations

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import PUBLIC, Web, to
from tribunal.retrievers.web.fetch import FetchLimits

ATTACKS = Attacks()
LIMITS = FetchLimits()


def refusing(url: str, attack: str, outcome: str, happens: str) -> None:
    async def run(web: Web) -> str:
        found = await web.outcome(url)
        assert web.dialled == []
        return found

    ATTACKS.add(attack, outcome, happens)(run)


refusing(
    "file:///etc/passwd", "`file:` in the URL", "refused: scheme", "Only http and https are fetched"
)
refusing(
    "gopher://site.test/",
    "`gopher:` in the URL",
    "refused: scheme",
    "Only http and https are fetched",
)
refusing(
    "http://site.test:22/", "Another port than 80 and 443", "refused: port", "Before any look-up"
)
refusing(
    "http://a:b@site.test/",
    "A user name or password in the URL",
    "refused: credentials",
    "Before any look-up",
)
refusing(
    "http://site.test@10.0.0.1/",
    "A name that is really a user name",
    "refused: credentials",
    "Before any look-up",
)
refusing(
    "http://10.0.0.1\\@site.test/",
    "A backslash before the host's end",
    "refused: url",
    "Readers differ on it",
)
refusing("http://site\n.test/", "A line break in the URL", "refused: url", "Readers differ on it")
refusing("http://[fe80::1%25eth0]/", "An IPv6 zone", "refused: url", "No zone leads to the web")
refusing(
    "http://1.2.3.4.5/",
    "A host that ends in a number and is no address",
    "refused: url",
    "As browsers do",
)
refusing("http://08.8.8.8/", "An octal number that is none", "refused: url", "As browsers do")
refusing(
    "http://site.test/" + "a" * 5000,
    "A URL of over 4096 characters",
    "refused: url",
    "It carries data, not a place",
)


# Redirects


def redirecting(location: str, attack: str, outcome: str, happens: str) -> None:
    async def run(web: Web) -> str:
        web.names["inside.test"] = [["10.0.0.1"]]
        web.site.answers["/"] = to(location)
        found = await web.outcome("http://site.test/")
        assert {host for host, _ in web.dialled} == {PUBLIC}
        return found

    ATTACKS.add(attack, outcome, happens)(run)


redirecting(
    "http://127.0.0.1/",
    "A redirect to a private address",
    "refused: address",
    "Every hop is checked anew",
)
redirecting(
    "//169.254.169.254/latest",
    "The same, without a scheme",
    "refused: address",
    "Every hop is checked anew",
)
redirecting(
    "http://inside.test/",
    "A redirect to a name at a private address",
    "refused: address",
    "The same",
)
redirecting(
    "file:///etc/passwd", "A redirect to `file:`", "refused: scheme", "Every hop is checked anew"
)
redirecting(
    "data:text/html,hello", "A redirect to `data:`", "refused: scheme", "Every hop is checked anew"
)
redirecting(
    "http://site.test:6379/",
    "A redirect to another port",
    "refused: port",
    "Every hop is checked anew",
)
redirecting(
    "http://a:b@site.test/",
    "A redirect with credentials",
    "refused: credentials",
    "Every hop is checked anew",
)


@ATTACKS.add("Redirects in a loop", "refused: loop", "At the first URL that comes again")
async def loop(web: Web) -> str:
    web.site.answers |= {"/": to("/b"), "/b": to("/c"), "/c": to("/b")}
    found = await web.outcome("http://site.test/")
    assert web.site.asked == ["/robots.txt", "/", "/b", "/c"]
    return found


@ATTACKS.add("Redirects without end", "refused: redirects", f"After {LIMITS.redirects}")
async def endless_redirects(web: Web) -> str:
    web.site.answers |= {f"/{i}": to(f"/{i + 1}") for i in range(20)}
    found = await web.outcome("http://site.test/0")
    assert web.site.asked == ["/robots.txt", *(f"/{i}" for i in range(6))]
    return found


@ATTACKS.add(
    "A redirect from https to http", "refused: downgrade", "Anyone on the line could write the rest"
)
async def downgrade(web: Web) -> str:
    web.tls_site.answers["/"] = to("http://site.test/")
    return await web.outcome("https://site.test/")


@ATTACKS.add(
    "A certificate of another name",
    "failed: tls",
    "TLS checks the name, though the address is pinned",
)
async def another_name(web: Web) -> str:
    return await web.outcome("https://other.test/")
