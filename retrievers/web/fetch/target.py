"""What a URL really names: taken apart, and spelt the one way we send it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal
from urllib.parse import quote, unquote, urljoin, urlsplit

import idna

from tribunal.errors import BadInput
from tribunal.retrievers.web.fetch.addresses import Address
from tribunal.retrievers.web.fetch.errors import FetchRefused

MAX_URL = 4096
"""The longest URL that is asked for, in characters. Longer ones carry data, not a place."""

PORTS = {"http": 80, "https": 443}

REDIRECTS = (301, 302, 303, 307, 308)
"""The HTTP statuses that send elsewhere."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL taken apart and spelt the one way we send it.

    `host` is an ASCII name in lower case, or an address in its canonical spelling (IPv6 without brackets); `path` is
    the path and query as they go on the wire.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The address, where the URL names one and no name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def place(self) -> str:
        """`host:port`, IPv6 in brackets: the form of `TRIBUNAL_FETCH_ALLOW`."""
        return f"{self._bracketed}:{self.port}"

    @property
    def netloc(self) -> str:
        """What goes into the Host header: the port only where it isn't the scheme's own."""
        return self._bracketed if self.port == PORTS[self.scheme] else self.place

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    @property
    def url(self) -> str:
        return self.origin + self.path

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(url: str) -> Target:
    """Take a URL apart as a browser would (the WHATWG rules for hosts), so that no spelling hides an address.

    Decimal, octal, hexadecimal and short IPv4 addresses, full-width digits, percent-encoded hosts, a trailing dot and
    internationalised names are brought to their plain form; the fragment is dropped.

    Raises:
        FetchRefused: with the reason `url`, `scheme` or `credentials`.
    """
    text = url.strip(" \t\r\n")
    if len(text) > MAX_URL:
        raise FetchRefused("url", f"longer than {MAX_URL} characters", url)
    # A backslash is a slash to browsers and not to others, and control characters vanish in some parsers: what two
    # readers understand differently is refused.
    if "\\" in text or any(c.isspace() or not c.isprintable() for c in text):
        raise FetchRefused("url", "holds a backslash, a space or a control character", url)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise FetchRefused("url", str(error), url) from error
    scheme = parts.scheme
    if scheme not in ("http", "https"):
        raise FetchRefused("scheme", f"{scheme or 'no scheme'}; only http and https are fetched", url)
    if "@" in parts.netloc:
        raise FetchRefused("credentials", "carries a user name or a password", url)
    place = _PLACE.fullmatch(parts.netloc)
    port = int(place[2]) if place and place[2] else PORTS[scheme]
    if place is None or port > 65535:
        raise FetchRefused("url", "not host:port", url)
    return Target(
        scheme="https" if scheme == "https" else "http",
        host=_host(place[1], url),
        port=port,
        path=_path(parts.path) + (f"?{_quoted(parts.query)}" if parts.query else ""),
    )


_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def _host(raw: str, url: str) -> str:
    if raw.startswith("["):
        if "%" in raw:
            raise FetchRefused("url", "an IPv6 zone", url)
        try:
            return str(IPv6Address(raw[1:-1]))
        except ValueError as error:
            raise FetchRefused("url", f"not an IPv6 address: {error}", url) from error
    try:
        name = unquote(raw, errors="strict")
        if not name.isascii():
            # The mapping turns full-width and circled digits and dots into plain ones, so it comes before the numbers.
            name = idna.uts46_remap(name, std3_rules=False, transitional=False)
        if not name.isascii():
            name = idna.encode(name).decode("ascii")
    except UnicodeError as error:  # idna.IDNAError is one too
        raise FetchRefused("url", f"not a host name: {error}", url) from error
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(labels, url)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise FetchRefused("url", f"not a host name: {name!r}", url)
    return name


def _ipv4(labels: list[str], url: str) -> str:
    """The dotted form of an IPv4 address in any spelling that `inet_aton` takes."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        raise FetchRefused("url", "a host that ends in a number and is no address", url)
    try:
        numbers = [_number(label) for label in labels]
    except ValueError as error:
        raise FetchRefused("url", "a host that ends in a number and is no address", url) from error
    *heads, last = numbers
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise FetchRefused("url", "an IPv4 address out of range", url)
    return str(IPv4Address(last + sum(head << 8 * (3 - i) for i, head in enumerate(heads))))


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)


def _path(path: str) -> str:
    """The path with its dots resolved: robots.txt rules are prefixes, and `/open/../closed` must not slip past them."""
    out: list[str] = []
    segments = path.split("/")[1:] or [""]
    for i, segment in enumerate(segments):
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            del out[-1:]
        elif plain != ".":
            out.append(_quoted(segment))
            continue
        if i == len(segments) - 1:
            out.append("")
    return "/" + "/".join(out)


def _quoted(text: str) -> str:
    return quote(text, safe="%/:@!$&'()*+,;=~-._?[]|")


@dataclass(frozen=True, slots=True)
class Redirect:
    """A site's word that what was asked for is elsewhere."""

    location: str
    """As the site spelt it."""


def follow(target: Target, redirect: Redirect) -> Target:
    """Where a redirect leads, taken apart like any URL.

    From https to http is refused: it would hand the page, and what evidence says, to whoever sits on the line.

    Raises:
        FetchRefused: as `parse_url`, and with the reason `downgrade`.
    """
    try:
        onward = urljoin(target.url, redirect.location.strip().replace(" ", "%20"))
    except ValueError as error:
        raise FetchRefused("url", f"redirects to what is no URL: {error}", target.url) from error
    following = parse_url(onward)
    if target.scheme == "https" and following.scheme == "http":
        raise FetchRefused("downgrade", f"redirects from https to {following.url}", target.url)
    return following


def parse_allow(value: str) -> frozenset[str]:
    """The places of `TRIBUNAL_FETCH_ALLOW`: `host:port`, separated by commas, IPv6 in brackets.

    For exactly these, the rules about ports and addresses are lifted, on every hop that names them.

    Raises:
        BadInput: naming the first entry that is not of that form.
    """
    places = set()
    for entry in filter(None, (part.strip() for part in value.split(","))):
        host, _, port = entry.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536 or any(c in host for c in "/@?#"):
            raise BadInput(f"TRIBUNAL_FETCH_ALLOW: {entry!r} is not host:port (IPv6 in brackets)")
        try:
            places.add(parse_url(f"http://{entry}/").place)
        except FetchRefused as error:
            raise BadInput(f"TRIBUNAL_FETCH_ALLOW: {entry!r}: {error.why}") from error
    return frozenset(places)
