"""The small web that the fetcher is tried on."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.retrievers.web.fetch.small_web import CERTIFICATE, Site, Web


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Web]:
    pem = tmp_path / "site.pem"
    pem.write_text(CERTIFICATE)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem)
    trusting = ssl.create_default_context(
        cadata=CERTIFICATE[CERTIFICATE.index("-----BEGIN CERT") :]
    )
    async with aclosing(Site().listen()) as plain, aclosing(Site().listen(tls=serving)) as tls:  # type: ignore[type-var]
        yield Web(await anext(plain), await anext(tls), trusting)
