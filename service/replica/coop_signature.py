"""Signatures of ROOST Coop's callbacks: RSASSA-PKCS1-v1_5 with SHA-256 of the body, by its organisation's key."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.plugins import require_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

_MOST_KEY = 16_384  # bytes


def load_coop_key(path: Path) -> RSAPublicKey:
    """Return the public key of a file, which Coop shows as its webhook signature verification key.

    Raises:
        BadInput: the file can't be read, or holds no such key.
    """
    require_extra("coop_key", "audit")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(read_regular(path, _MOST_KEY))
    except OSError as error:
        raise BadInput(f"coop_key: {path}: can't be read: {error.strerror}") from error
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey):
        raise BadInput(f"coop_key: {path}: is no RSA public key in PEM; copy it from Coop's settings, API Keys")
    return key


def is_signed_by_coop(key: RSAPublicKey, signature: str, body: bytes) -> bool:
    """Return whether a signature, as Coop sends it in base64, is that of a body."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(base64.b64decode(signature, validate=True), body, PKCS1v15(), SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True
