"""The addresses that are never connected to, and why."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

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
