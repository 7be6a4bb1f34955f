"""Time-stamps by RFC 3161: a server that others trust confirms that a head of the audit log was there at a time.

What is stamped are the 64 digits of the head's hash, so that `openssl ts -verify -data` checks it, too.
"""

from __future__ import annotations

import base64
import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.plugins import require_extra
from tribunal.text import one_line

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampRequest

MOST_ANSWER = 100_000  # bytes of a server's answer
_MOST_CERTIFICATES = 1_000_000


def make_request(head_hash: str) -> TimeStampRequest:
    """Return the request for a time-stamp of a head; `as_bytes` of it is sent."""
    require_extra("rfc3161", "audit")
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    return TimestampRequestBuilder().data(head_hash.encode()).hash_algorithm(HashAlgorithm.SHA256).build()


def read_answer(request: TimeStampRequest, head_hash: str, answer: bytes) -> str:
    """Return a server's answer in base64, if it is the time-stamp that was asked for.

    Its signature is checked when somebody relies on it (`time_of_token`).

    Raises:
        BadInput: it is something else.
    """
    from rfc3161_client import PKIStatus, decode_timestamp_response

    try:
        response = decode_timestamp_response(answer)
        status = PKIStatus(response.status)
        told = response.tst_info if status == PKIStatus.GRANTED else None
    except ValueError as error:
        raise BadInput(f"answered no time-stamp ({one_line(str(error))[:100]})") from None
    if told is None:
        raise BadInput(f"refused the time-stamp ({status.name})")
    if told.nonce != request.nonce or told.message_imprint.message != hashlib.sha256(head_hash.encode()).digest():
        raise BadInput("answered a time-stamp of something else")
    return base64.b64encode(answer).decode()


def time_of_token(token: str, head_hash: str, certificates: list[Certificate]) -> str:
    """Return when a head was time-stamped, ISO 8601.

    Raises:
        BadInput: the token isn't of this head, or not by a server that one of these certificates vouches for.
    """
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    verifier = VerifierBuilder()
    for each in certificates:
        own = each.issuer == each.subject
        verifier = verifier.add_root_certificate(each) if own else verifier.add_intermediate_certificate(each)
    try:
        response = decode_timestamp_response(base64.b64decode(token, validate=True))
        verifier.build().verify_message(response, head_hash.encode())
    except (VerificationError, ValueError) as error:
        raise BadInput(f"its time-stamp can't be trusted: {one_line(str(error))[:200]}") from None
    return response.tst_info.gen_time.isoformat()


def load_certificates(path: Path) -> list[Certificate]:
    """Return the certificates of a file in PEM: the root of a time-stamp server, and those between.

    Raises:
        BadInput: it can't be read, or holds none.
    """
    require_extra("tsa_certificates", "audit")
    from cryptography.utils import CryptographyDeprecationWarning
    from cryptography.x509 import load_pem_x509_certificates

    try:
        with warnings.catch_warnings():
            # What the library will refuse in a later release is damaged, or was never a certificate.
            warnings.simplefilter("error", CryptographyDeprecationWarning)
            found = load_pem_x509_certificates(read_regular(path, _MOST_CERTIFICATES))
    except (OSError, ValueError, CryptographyDeprecationWarning) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds no certificates in PEM"
        raise BadInput(f"tsa_certificates: {path}: can't be read: {why}") from None
    if not any(each.issuer == each.subject for each in found):
        raise BadInput(f"tsa_certificates: {path}: holds no root, a certificate that signs itself; add it")
    return found
