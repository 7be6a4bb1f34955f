"""A time-stamp server on loopback: aiohttp takes the request, and openssl answers it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CONFIG = """\
[tsa]
default_tsa = tsa1
[tsa1]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which answers, isn't installed")


class TimeStampServer(NamedTuple):
    """Its address, and the file of the certificate that vouches for it."""

    url: str
    certificates: Path


def make_certificates(folder: Path) -> None:
    """Make ca.pem, tsa.pem and tsa.key."""
    now, keys = datetime.now(UTC), [rsa.generate_private_key(65537, 2048) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("test root", "test stamps")]
    for at, (name, file) in enumerate(zip(names, ("ca.pem", "tsa.pem"), strict=True)):
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=not at, crl_sign=not at, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        made = (
            x509.CertificateBuilder(names[0], name, keys[at].public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=not at, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        if at:
            made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        pem = made.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        (folder / file).write_bytes(pem)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "tsa.key").write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, *form))
    (folder / "serial").write_text("01\n")
    (folder / "openssl.cnf").write_text(CONFIG)


@asynccontextmanager
async def stamping(folder: Path, answers: list[int] | None = None) -> AsyncIterator[TimeStampServer]:
    """A server, which first answers with these statuses."""
    make_certificates(folder)

    async def answer(request: web.Request) -> web.Response:
        if answers:
            return web.Response(status=answers.pop(0))
        (folder / "query").write_bytes(await request.read())
        process = await asyncio.create_subprocess_exec(
            "openssl", "ts", "-reply", "-config", "openssl.cnf", "-queryfile", "query", "-out", "answer",
            cwd=folder, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert await process.wait() == 0
        return web.Response(body=(folder / "answer").read_bytes(), content_type="application/timestamp-reply")

    app = web.Application()
    app.router.add_post("/stamp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield TimeStampServer(f"http://127.0.0.1:{port}/stamp", folder / "ca.pem")
    finally:
        await runner.cleanup()
