"""Addresses that are not to be connected to: in every spelling, and behind names."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from tests.retrievers.web.fetch.attack import Attacks, Run
from tests.retrievers.web.fetch.small_web import PUBLIC, Web, outcome
from tribunal.retrievers.web.fetch.fetcher import Fetcher
from tribunal.retrievers.web.fetch.target import FORBIDDEN

ATTACKS = Attacks()
PRIVATE = [
    "127.0.0.1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "169.254.170.2", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "0.0.0.0", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
]  # fmt: skip
WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
CIRCLED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")


def octets(text: str) -> list[int]:
    return list(IPv4Address(text).packed)


def inside(prefix: str, text: str, shift: int = 0, flip: int = 0) -> str:
    """An IPv4 address in an IPv6 one, written out: Python's short form of it differs between versions."""
    whole = int(IPv6Address(prefix)) | ((int(IPv4Address(text)) ^ flip) << shift)
    return f"[{':'.join(f'{whole >> at & 0xFFFF:x}' for at in range(112, -1, -16))}]"


SPELLINGS: dict[str, Callable[[str], str]] = {
    "dotted": lambda a: a,
    "decimal": lambda a: str(int(IPv4Address(a))),
    "octal": lambda a: ".".join(f"0{o:o}" for o in octets(a)),
    "hexadecimal": lambda a: f"0x{int(IPv4Address(a)):X}",
    "hexadecimal, dotted": lambda a: ".".join(f"0x{o:x}" for o in octets(a)),
    "short": lambda a: f"{octets(a)[0]}.{int(IPv4Address(a)) & 0xFFFFFF}",
    "mixed and short": lambda a: (
        f"0{octets(a)[0]:o}.0x{octets(a)[1]:x}.{int(IPv4Address(a)) & 0xFFFF}"
    ),
    "trailing dot": lambda a: f"{a}.",
    "full-width digits": lambda a: a.translate(WIDE).replace(".", "。"),
    "circled digits": lambda a: a.translate(CIRCLED),
    "percent-encoded": lambda a: "".join(f"%{ord(c):02x}" for c in a),
    "IPv4-mapped": lambda a: inside("::ffff:0:0", a),
    "IPv4-mapped, dotted": lambda a: f"[::ffff:{a}]",
    "IPv4-compatible": lambda a: inside("::", a),
    "IPv4-translated": lambda a: inside("::ffff:0:0:0", a),
    "6to4": lambda a: inside("2002::1", a, shift=80),
    "Teredo, as the client": lambda a: inside("2001:0:5db8:d822::", a, flip=0xFFFFFFFF),
    "Teredo, as the server": lambda a: inside("2001::", a, shift=64),
    "NAT64": lambda a: inside("64:ff9b::", a),
    "local NAT64": lambda a: inside("64:ff9b:1::", a),
    "ISATAP": lambda a: inside("2606:4700::5efe:0:0", a),
    "ISATAP, global bit": lambda a: inside("2606:4700::200:5efe:0:0", a),
}


def spelling(name: str) -> Run:
    async def run(web: Web) -> str:
        seen = {await web.outcome(f"http://{SPELLINGS[name](address)}/") for address in PRIVATE}
        assert web.dialled == [] == web.lookups
        return ", ".join(sorted(seen))

    return run


for _name, _spell in SPELLINGS.items():
    ATTACKS.add(
        f"A forbidden IPv4 address in the URL, {_name}: `http://{_spell('169.254.169.254')}/`",
        "refused: address",
        f"{len(PRIVATE)} addresses tried: known for what they are, before any look-up",
    )(spelling(_name))


@ATTACKS.add(
    "An address of any forbidden range, v4 or v6, in the URL",
    "refused: address",
    "The first and last of each range",
)
async def literal_ranges(web: Web) -> str:
    ends = [end for network, _ in FORBIDDEN for end in (network[0], network[-1])]
    seen = {await web.outcome(f"http://{f'[{end}]' if end.version == 6 else end}/") for end in ends}
    assert web.dialled == []
    return ", ".join(sorted(seen))


@ATTACKS.add(
    "A name whose address is of a forbidden range",
    "refused: address",
    "The same, as an answer of the name service",
)
async def named_ranges(web: Web) -> str:
    seen = set()
    for network, _ in FORBIDDEN:
        for end in (network[0], network[-1]):
            web.names["inside.test"] = [[str(end)]]
            seen.add(await web.outcome("http://inside.test/"))
    assert web.dialled == []
    return ", ".join(sorted(seen))


@ATTACKS.add(
    "`localhost`, by the system's own resolver", "refused: address", "Names get no exception"
)
async def localhost(web: Web) -> str:
    return await outcome(Fetcher(route=web.route).fetch("http://localhost/"))


@ATTACKS.add(
    "A name with one public and one private address",
    "refused: address",
    "One forbidden address spoils the whole name",
)
async def one_of_two(web: Web) -> str:
    web.names["both.test"] = [[PUBLIC, "10.0.0.1"]]
    found = await web.outcome("http://both.test/")
    assert web.dialled == []
    return found


@ATTACKS.add(
    "A name whose answer changes between check and connection (rebinding)",
    "taken, 14 bytes",
    "The connection goes to the address that was checked: one look-up a connection, never a second",
)
async def rebinding(web: Web) -> str:
    web.names["turning.test"] = [[PUBLIC], [PUBLIC], ["127.0.0.1"]]
    found = await web.outcome("http://turning.test/")
    assert web.dialled == [(PUBLIC, 80), (PUBLIC, 80)]  # robots.txt, then the page
    assert web.lookups == ["turning.test", "turning.test"]
    return found


@ATTACKS.add(
    "A name whose answer changes between robots.txt and the page",
    "refused: address",
    "Each connection is checked anew",
)
async def rebinding_later(web: Web) -> str:
    web.names["turning.test"] = [[PUBLIC], ["127.0.0.1"]]
    found = await web.outcome("http://turning.test/")
    assert web.dialled == [(PUBLIC, 80)]
    return found
