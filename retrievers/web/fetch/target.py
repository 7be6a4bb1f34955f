"""The target of a URL, spelt the one way we send it; addresses never connected to; what a URL may not carry."""

from __future__ import annotations

import re
import unicodedata
from base64 import b32decode, urlsafe_b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urljoin, urlsplit

import idna

from tribunal.errors import BadInput
from tribunal.retrievers.web.fetch import FetchRefused

Address = IPv4Address | IPv6Address

# Python's `is_global` won't do: it lets through 6to4, NAT64, ISATAP and site-local addresses whose insides lead to a
# private network, the cloud endpoints that sit in public space, and it has changed between patch releases.
# Sources: the IANA special-purpose address registries for IPv4 and IPv6, and the RFCs named.
_RANGES_OF_USE: dict[str, tuple[str, ...]] = {
    # Where clouds hand out credentials; first, so that the message says so.
    "a cloud's metadata service": (
        "169.254.169.254/32",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "fd00:ec2::/32",
        "fd20:ce::254/128",
    ),
    "a cloud's container credentials": ("169.254.170.2/32", "169.254.170.23/32"),
    "a cloud's host service": ("168.63.129.16/32",),
    "unspecified": ("::/128",),
    "loopback": ("127.0.0.0/8", "::1/128"),
    # IPv6 that carries an IPv4 address. Refused whole, public insides or not: where it ends up is decided by a
    # translator that we can't see.
    "an IPv4-compatible address": ("::/96",),
    "an IPv4-mapped address": ("::ffff:0:0/96",),
    "an IPv4-translated address": ("::ffff:0:0:0/96",),
    "NAT64": ("64:ff9b::/96",),
    "local NAT64": ("64:ff9b:1::/48",),
    "Teredo": ("2001::/32",),
    "6to4": ("2002::/16",),
    "6to4 relays": ("192.88.99.0/24",),
    "this network": ("0.0.0.0/8",),
    "a private network": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    "carrier-grade NAT": ("100.64.0.0/10",),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "documentation": (
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001:db8::/32",
        "3fff::/20",
    ),
    "AS112 redirection": ("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48"),
    "AMT relays": ("192.52.193.0/24",),
    "benchmarking": ("198.18.0.0/15", "2001:2::/48"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "broadcast": ("255.255.255.255/32",),
    "reserved": ("240.0.0.0/4",),
    "the discard prefix": ("100::/64",),
    "the dummy prefix": ("100:0:0:1::/64",),
    "ORCHID": ("2001:10::/28",),
    "ORCHIDv2": ("2001:20::/28",),
    "the former 6bone": ("3ffe::/16",),
    "segment routing": ("5f00::/16",),
    "a unique local address": ("fc00::/7",),
    "site-local": ("fec0::/10",),
    "IETF protocol assignments": ("192.0.0.0/24", "2001::/23"),
}
RANGES = {text: use for use, ranges in _RANGES_OF_USE.items() for text in ranges}
"""Every range that is never connected to, and what it is. The first that fits names an address."""

FORBIDDEN: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(text), f"{use} ({text})") for text, use in RANGES.items()
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)


def why_forbidden(address: Address) -> str | None:
    """Return what makes this address one not to connect to: a range and its use; None for a public one."""
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


MAX_URL = 4096
"""The longest URL that is asked for, in characters. Longer ones carry data, not a place."""

PORTS = {"http": 80, "https": 443}

REDIRECTS = (301, 302, 303, 307, 308)
"""The HTTP statuses that send elsewhere."""


@dataclass(frozen=True, slots=True)
class FetchTarget:
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
        """Return the address, where the URL names one and no name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def place(self) -> str:
        """Return `host:port`, IPv6 in brackets: the form of `TRIBUNAL_FETCH_ALLOW`."""
        return f"{self._bracketed_host}:{self.port}"

    @property
    def netloc(self) -> str:
        """Return what goes into the Host header: the port only where it isn't the scheme's own."""
        return self._bracketed_host if self.port == PORTS[self.scheme] else self.place

    @property
    def origin(self) -> str:
        """Return scheme and host, as in `https://example.org`."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def url(self) -> str:
        """Return the whole URL, as it is sent."""
        return self.origin + self.path

    @property
    def _bracketed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(url: str) -> FetchTarget:
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
        raise FetchRefused(
            "scheme", f"{scheme or 'no scheme'}; only http and https are fetched", url
        )
    if "@" in parts.netloc:
        raise FetchRefused("credentials", "carries a user name or a password", url)
    place = _PLACE.fullmatch(parts.netloc)
    port = int(place[2]) if place and place[2] else PORTS[scheme]
    if place is None or port > 65535:
        raise FetchRefused("url", "not host:port", url)
    return FetchTarget(
        scheme="https" if scheme == "https" else "http",
        host=_parse_host(place[1], url),
        port=port,
        path=_resolve_path(parts.path) + (f"?{_quote_path(parts.query)}" if parts.query else ""),
    )


_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def _parse_host(raw: str, url: str) -> str:
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
        return _parse_ipv4(labels, url)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise FetchRefused("url", f"not a host name: {name!r}", url)
    return name


def _parse_ipv4(labels: list[str], url: str) -> str:
    """Return the dotted form of an IPv4 address in any spelling that `inet_aton` takes."""
    try:
        if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
            raise ValueError("no four numbers")
        *heads, last = (_parse_number(label) for label in labels)
    except ValueError as error:
        raise FetchRefused("url", "a host that ends in a number and is no address", url) from error
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise FetchRefused("url", "an IPv4 address out of range", url)
    return str(IPv4Address(last + sum(head << 8 * (3 - i) for i, head in enumerate(heads))))


def _parse_number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if len(text) > 1 and text.startswith("0") else int(text)


def _resolve_path(path: str) -> str:
    """Return the path with its dots resolved: `/open/../closed` must not slip past a rule of robots.txt."""
    out: list[str] = []
    segments = path.split("/")[1:] or [""]
    plain = ""
    for segment in segments:
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            del out[-1:]
        elif plain != ".":
            out.append(_quote_path(segment))
    return "/" + "/".join([*out, ""] if plain in (".", "..") else out)


def _quote_path(text: str) -> str:
    return quote(text, safe="%/:@!$&'()*+,;=~-._?[]|")


def follow_redirect(target: FetchTarget, location: str) -> FetchTarget:
    """Return where a redirect leads, taken apart like any URL.

    From https to http is refused: it would hand the page, and what evidence says, to whoever sits on the line.

    Raises:
        FetchRefused: as `parse_url`, and with the reason `downgrade`.
    """
    try:
        onward = urljoin(target.url, location.strip().replace(" ", "%20"))
    except ValueError as error:
        raise FetchRefused("url", f"redirects to what is no URL: {error}", target.url) from error
    following = parse_url(onward)
    if target.scheme == "https" and following.scheme == "http":
        raise FetchRefused("downgrade", f"redirects from https to {following.url}", target.url)
    return following


def parse_allowed_places(value: str) -> frozenset[str]:
    """Return the places of `TRIBUNAL_FETCH_ALLOW`: `host:port`, separated by commas, IPv6 in brackets.

    For exactly these, the rules about ports and addresses are lifted, on every hop that names them.

    Raises:
        BadInput: naming the first entry that is not of that form.
    """
    places = set()
    for entry in filter(None, (part.strip() for part in value.split(","))):
        host, _, port = entry.rpartition(":")
        if (
            not host
            or not port.isdecimal()
            or not 0 < int(port) < 65536
            or any(c in host for c in "/@?#")
        ):
            raise BadInput(f"TRIBUNAL_FETCH_ALLOW: {entry!r} is not host:port (IPv6 in brackets)")
        try:
            places.add(parse_url(f"http://{entry}/").place)
        except FetchRefused as error:
            raise BadInput(f"TRIBUNAL_FETCH_ALLOW: {entry!r}: {error.why}") from error
    return frozenset(places)


def parse_image_hosts(value: str) -> frozenset[str]:
    """Return the hosts of `TRIBUNAL_IMAGE_HOSTS`, separated by commas: `img.example`, or `*.cdn.example`.

    A post's image on one of them is fetched without asking its robots.txt: the platform itself serves it there.

    Raises:
        BadInput: naming the first entry that is not of that form.
    """
    hosts = set()
    for entry in filter(None, (part.strip() for part in value.split(","))):
        below, name = ("*.", entry[2:]) if entry.startswith("*.") else ("", entry)
        try:
            target = parse_url(f"https://{name}/")
        except FetchRefused as error:
            raise BadInput(f"TRIBUNAL_IMAGE_HOSTS: {entry[:100]!r}: {error.why}") from error
        if any(c in name for c in "/?#:*") or (
            below and (target.address or "." not in target.host)
        ):
            raise BadInput(
                f"TRIBUNAL_IMAGE_HOSTS: {entry[:100]!r}: give a host, or *. and a domain: *.cdn.example"
            )
        hosts.add(below + target.host)
    return frozenset(hosts)


def is_named_host(host: str, named: frozenset[str]) -> bool:
    """Return whether a host is one of those that `parse_image_hosts` gives, or lies below one with `*.`."""
    labels = host.split(".")
    return host in named or any(
        f"*.{'.'.join(labels[at:])}" in named for at in range(1, len(labels))
    )


# What a URL may not carry to a site: the post's own text.
_RUN = 40
_WIDE_RUN = 20
_LINK = re.compile(r"https?://\S+")


def carries_text(url: str, secret_text: str) -> bool:
    """Return whether a URL holds a long verbatim run of a text: 40 letters and digits on end.

    Spacing and case don't count. 20 are enough if the text is mostly in a wide script, Hangul or Han, in which a
    letter says more.

    Looked for in the host, path and query, as they stand and after undoing percent, plus, base64, base64url, base32 and
    hexadecimal, two layers deep. Links inside the text don't count: following them tells their owner nothing new.
    """
    pieces = [_letters_and_digits(piece) for piece in _LINK.split(secret_text)]
    letters = "".join(pieces)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in letters)
    run = _WIDE_RUN if wide * 2 > len(letters) else _RUN
    if all(len(piece) < run for piece in pieces):
        return False
    grams: set[str] = set()
    for reading in _readings_of_url(url):
        grams.update(reading[i : i + run] for i in range(len(reading) - run + 1))
    return bool(grams) and any(
        piece[i : i + run] in grams for piece in pieces for i in range(len(piece) - run + 1)
    )


def _letters_and_digits(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def _readings_of_url(url: str) -> Iterator[str]:
    """Yield every way to read a URL as text, brought to letters and digits."""
    parts = urlsplit(url)
    values = "".join(value for _, value in parse_qsl(parts.query, keep_blank_values=True))
    texts = {url, values, parts.hostname or ""}
    for _ in range(2):
        for text in list(texts):
            plain = unquote(text.replace("+", " "))
            texts |= {unquote(text), plain, unquote(plain)}
        for text in list(texts):
            texts |= set(_decode_runs(text))
    for text in texts:
        yield _letters_and_digits(text)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_BASE32 = re.compile(r"[A-Za-z2-7]{32,}")
_HEX = re.compile(r"[0-9A-Fa-f]{40,}")


def _decode_runs(text: str) -> Iterator[str]:
    """Yield what the runs in a text decode to.

    An encoder may have begun anywhere in a run, so each alignment is tried.
    """
    joined = text.replace(".", "")  # labels of a host are cut every 63 characters
    for run in _BASE64.findall(joined):
        plain = run.replace("+", "-").replace("/", "_")
        yield from (_decode_run(urlsafe_b64decode, plain[at:], 4) for at in range(4))
    for run in _BASE32.findall(joined):
        yield from (_decode_run(b32decode, run[at:].upper(), 8) for at in range(8))
    for run in _HEX.findall(joined):
        yield from (_decode_run(bytes.fromhex, run[at:], 2) for at in range(2))


def _decode_run(decode: Callable[[str], bytes], run: str, block: int) -> str:
    try:
        return decode(run[: len(run) // block * block]).decode("utf-8", errors="ignore")
    except ValueError:
        return ""
