"""What a URL really names, which addresses may be connected to, and what a URL may not carry.

FetchError (a TribunalError)
├── FetchRefused    we would not: an address, a port, a size, a wish of the site
└── FetchFailed     we could not: no such name, no answer, an answer cut short
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b32decode, urlsafe_b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import idna

from tribunal.errors import BadInput, TribunalError

Address = IPv4Address | IPv6Address
Reason = Literal[
    # why we would not
    "url", "scheme", "credentials", "port", "address", "outward", "robots", "redirects", "loop", "downgrade",
    "content_type", "too_large", "encoding",
    # why we could not
    "dns", "connect", "tls", "timeout", "protocol", "truncated", "status",
]  # fmt: skip

MAX_URL = 4096
"""The longest URL that is asked for, in characters. Longer ones carry data, not a place."""

PORTS = {"http": 80, "https": 443}


class FetchError(TribunalError):
    """A URL that gave no page.

    `reason` is for machines; `str()` is one line for people; `status` is the answer's HTTP status, where there was one.
    """

    def __init__(self, reason: Reason, why: str, url: str, *, status: int | None = None) -> None:
        super().__init__(f"{_one_line(url)}: {_one_line(why)}")
        self.reason, self.why, self.url, self.status = reason, why, url, status


class FetchRefused(FetchError):
    """We would not ask for this URL, or would not take what came."""


class FetchFailed(FetchError):
    """We asked, or tried to, and it didn't work."""


def _one_line(text: str) -> str:
    plain = "".join(c if c.isprintable() else "�" for c in text)
    return plain if len(plain) <= 200 else plain[:197] + "…"


# Python's `is_global` won't do: it lets through 6to4, NAT64, ISATAP and site-local addresses whose insides lead to a
# private network, the cloud endpoints that sit in public space, and it has changed between patch releases.
# Sources: the IANA special-purpose address registries for IPv4 and IPv6, and the RFCs named.
RANGES: dict[str, str] = {
    # where clouds hand out credentials; first, so that the message says so
    "169.254.169.254/32": "a cloud's metadata service",
    "169.254.170.2/32": "a cloud's container credentials",
    "169.254.170.23/32": "a cloud's container credentials",
    "100.100.100.200/32": "a cloud's metadata service",
    "168.63.129.16/32": "a cloud's host service",
    "192.0.0.192/32": "a cloud's metadata service",
    "fd00:ec2::/32": "a cloud's metadata service",
    "fd20:ce::254/128": "a cloud's metadata service",
    # IPv4
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "IETF protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.31.196.0/24": "AS112 redirection",
    "192.52.193.0/24": "AMT relays",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "AS112 redirection",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "255.255.255.255/32": "broadcast",
    "240.0.0.0/4": "reserved",
    # IPv6 that carries an IPv4 address. Refused whole, public insides or not: where it ends up is decided by a
    # translator that we can't see.
    "::/128": "unspecified",
    "::1/128": "loopback",
    "::/96": "an IPv4-compatible address",
    "::ffff:0:0/96": "an IPv4-mapped address",
    "::ffff:0:0:0/96": "an IPv4-translated address",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "local NAT64",
    "2001::/32": "Teredo",
    "2002::/16": "6to4",
    # IPv6
    "100::/64": "the discard prefix",
    "100:0:0:1::/64": "the dummy prefix",
    "2001:2::/48": "benchmarking",
    "2001:10::/28": "ORCHID",
    "2001:20::/28": "ORCHIDv2",
    "2001::/23": "IETF protocol assignments",
    "2001:db8::/32": "documentation",
    "2620:4f:8000::/48": "AS112 redirection",
    "3ffe::/16": "the former 6bone",
    "3fff::/20": "documentation",
    "5f00::/16": "segment routing",
    "fc00::/7": "a unique local address",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}
"""Every range that is never connected to, and what it is. The first that fits names an address."""

FORBIDDEN: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(text), f"{use} ({text})") for text, use in RANGES.items()
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)


def forbidden(address: Address) -> str | None:
    """What makes this address one not to connect to: a range and its use; None for a public one."""
    for network, use in FORBIDDEN:
        if address in network:
            return use
    if isinstance(address, IPv6Address):
        # An ISATAP interface identifier sits under any prefix, so no range can name it.
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return "ISATAP, which carries an IPv4 address"
        if address not in _GLOBAL_UNICAST:
            return "outside global unicast (2000::/3)"
    return None


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


# What a URL may not carry

_RUN = 40
_WIDE_RUN = 20
_LINK = re.compile(r"https?://\S+")


def carries(url: str, secret_text: str) -> bool:
    """Whether a URL holds a long verbatim run of a text: 40 letters and digits on end, spacing and case aside (20 where
    the text is mostly in a wide script, Hangul or Han, in which a letter says more).

    Looked for in the host, path and query, as they stand and after undoing percent, plus, base64, base64url, base32 and
    hexadecimal, two layers deep. Links inside the text don't count: following them tells their owner nothing new.
    """
    pieces = [_letters(piece) for piece in _LINK.split(secret_text)]
    letters = "".join(pieces)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in letters)
    run = _WIDE_RUN if wide * 2 > len(letters) else _RUN
    if all(len(piece) < run for piece in pieces):
        return False
    grams: set[str] = set()
    for reading in _readings(url):
        grams.update(reading[i : i + run] for i in range(len(reading) - run + 1))
    return bool(grams) and any(piece[i : i + run] in grams for piece in pieces for i in range(len(piece) - run + 1))


def _letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def _readings(url: str) -> Iterator[str]:
    """Every way to read a URL as text, brought to letters and digits."""
    parts = urlsplit(url)
    values = "".join(value for _, value in parse_qsl(parts.query, keep_blank_values=True))
    texts = {url, values, parts.hostname or ""}
    for _ in range(2):
        for text in list(texts):
            plain = unquote(text.replace("+", " "))
            texts |= {unquote(text), plain, unquote(plain)}
        for text in list(texts):
            texts |= set(_unpacked(text))
    for text in texts:
        yield _letters(text)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_BASE32 = re.compile(r"[A-Za-z2-7]{32,}")
_HEX = re.compile(r"[0-9A-Fa-f]{40,}")


def _unpacked(text: str) -> Iterator[str]:
    """What the runs in a text decode to. An encoder may have begun anywhere in a run, so each alignment is tried."""
    joined = text.replace(".", "")  # labels of a host are cut every 63 characters
    for run in _BASE64.findall(joined):
        plain = run.replace("+", "-").replace("/", "_")
        yield from (_decoded(urlsafe_b64decode, plain[at:], 4) for at in range(4))
    for run in _BASE32.findall(joined):
        yield from (_decoded(b32decode, run[at:].upper(), 8) for at in range(8))
    for run in _HEX.findall(joined):
        yield from (_decoded(bytes.fromhex, run[at:], 2) for at in range(2))


def _decoded(decode: Callable[[str], bytes], run: str, block: int) -> str:
    try:
        return decode(run[: len(run) // block * block]).decode("utf-8", errors="ignore")
    except ValueError:
        return ""
