"""Exports of the database to others: data sets, tables, tasks for annotators, statements of reasons."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from tribunal.errors import BadInput


def check_address(field: str, url: str) -> str:
    """Return an address to which a key may go: over TLS, or on this machine.

    Raises:
        BadInput: it is none.
    """
    try:
        parsed = urlsplit(url)
        host, alone = parsed.hostname, parsed.port is None or parsed.port > 0
    except ValueError:
        host, alone = None, False
    if not alone or not host or parsed.scheme not in ("http", "https") or "@" in parsed.netloc or not url.isprintable():
        raise BadInput(f"{field}: is no address of the form https://host/path, without a user in it")
    if parsed.scheme == "http" and not _is_loopback(host):
        raise BadInput(f"{field}: {host}: is not asked over http, where others could read the key; give https")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
