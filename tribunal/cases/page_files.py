"""Files that our own pages load, and the headers that a page and such a file are answered with."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from tribunal.cases.case_drawing import stylesheet

# A page runs scripts and has stylesheets of our own files; it loads nothing else, and says so to the browser.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
KEPT_LONG = {"Cache-Control": "public, max-age=31536000, immutable"}  # of a file with its hash in its name
MEDIA_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@cache
def read_page_file(package: str, name: str) -> bytes:
    """Return a file of a package that its pages load: a script, an icon, or a stylesheet with that of cases in it."""
    read = files(package).joinpath(name).read_bytes()
    return read + stylesheet().encode() if name.endswith(".css") else read


@cache
def hashed_name(package: str, name: str) -> str:
    """Return the name under which a page loads a file: another one whenever it changes, so that it may be kept long."""
    stem, _, kind = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(read_page_file(package, name)).hexdigest()[:16]}.{kind}"
