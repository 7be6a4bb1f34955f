"""Heads of the audit log that were published: signed with a key of the operator's, and compared with the log later.

A head is written as a line of JSON: `seq`, `hash`, `at`; `key` and `signature` if it is signed; `token` if a time-stamp
server has answered for it. The signature, by Ed25519, is of the line `tribunal audit head SEQ HASH AT`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tribunal.errors import BadInput
from tribunal.files import bounded_lines, check_regular, create_private_file, open_regular, read_regular, write_whole
from tribunal.plugins import require_extra
from tribunal.schema import Frozen
from tribunal.store.audit import NOTHING, FaultTally, Head, page
from tribunal.store.engine import Store
from tribunal.store.time_stamps import load_certificates, time_of_token

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MOST_KEY = 10_000  # bytes of a key's file


class PublishedHead(Frozen):
    """A head as it is published.

    Attributes:
        seq: the number of the log's last entry.
        hash: that entry's hash.
        at: when it was read, ISO 8601 in UTC.
        key: the fingerprint of the public key.
        signature: in base64.
        token: the time-stamp server's whole answer, in base64.
    """

    seq: int
    hash: str
    at: str
    key: str | None = None
    signature: str | None = None
    token: str | None = None

    def signed_text(self) -> bytes:
        """Return what is signed."""
        return f"tribunal audit head {self.seq} {self.hash} {self.at}".encode()

    def line(self) -> str:
        """Return the head as a line of JSON, without the line's end."""
        return json.dumps(self.model_dump(exclude_none=True))


def publish_form(head: Head, key: Ed25519PrivateKey | None) -> PublishedHead:
    """Return a head, read just now, as it is published; signed if there is a key."""
    plain = PublishedHead(seq=head.seq, hash=head.hash, at=datetime.now(UTC).isoformat(timespec="seconds"))
    if key is None:
        return plain
    signature = base64.b64encode(key.sign(plain.signed_text())).decode()
    return plain.model_copy(update={"key": fingerprint(key.public_key()), "signature": signature})


# Keys


def make_key(path: Path) -> str:
    """Make a private key in a file that its owner alone may read, and the public one in `FILE.pub`.

    Returns:
        the public key's fingerprint.

    Raises:
        BadInput: one of the files is there already, or can't be written.
    """
    require_extra("audit key", "audit")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, public = Ed25519PrivateKey.generate(), path.with_name(f"{path.name}.pub")
    pem = serialization.Encoding.PEM
    private_text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public_text = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        if public.exists():
            raise FileExistsError(None, "is there already", str(public))
        with create_private_file(path) as file:
            file.write(private_text)
        write_whole(public, public_text)
    except OSError as error:
        raise BadInput(f"key: {error.filename or path}: can't be made: {error.strerror}; give another name") from error
    return fingerprint(key.public_key())


def fingerprint(public: Ed25519PublicKey) -> str:
    """Return the first 16 digits of the SHA-256 of a public key's 32 bytes."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


def load_private_key(path: Path, option: str = "sign") -> Ed25519PrivateKey:
    """Return the private key of a file.

    Raises:
        BadInput: others may read the file, or it holds no such key. What it holds is never told.
    """
    require_extra(option, "audit")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        mode, text = check_regular(path).st_mode, read_regular(path, _MOST_KEY)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{option}: {path}: can't be read: {why}; tribunal audit key makes one") from error
    if os.name == "posix" and mode & 0o077:
        raise BadInput(f"{option}: {path}: others may read this private key; chmod 600 {path}")
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError):
        raise BadInput(
            f"{option}: {path}: is no private key without a password; tribunal audit key makes one"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{option}: {path}: is no Ed25519 key; tribunal audit key makes one")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Return the public key of a file; raise BadInput if it holds none."""
    require_extra("public_key", "audit")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(read_regular(path, _MOST_KEY))
    except OSError as error:
        raise BadInput(f"public_key: {path}: can't be read: {error.strerror}") from error
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"public_key: {path}: is no Ed25519 public key; give the .pub that tribunal audit key made")
    return key


# Heads that were published, compared with the log


@dataclass
class HeadTally(FaultTally):
    """Count the heads of a file that were compared with the log.

    Attributes:
        heads: how many.
        signed: how many have a signature that was checked.
        stamped: how many have a time-stamp that was checked; `stamped_at` is the last one's time.
        unchecked: whether signatures or time-stamps were left unchecked, for want of a key or of certificates.
        torn: lines that aren't whole, as a full disk leaves them.
    """

    heads: int = 0
    signed: int = 0
    stamped: int = 0
    stamped_at: str = ""
    unchecked: bool = False
    torn: int = 0


async def check_heads(
    store: Store, path: Path, public_key: Path | None = None, certificates: Path | None = None
) -> HeadTally:
    """Compare each head of a file with the log, whose entries follow from one another; memory holds one.

    Args:
        store: the database.
        path: the file, a head a line.
        public_key: the key that each head must be signed with.
        certificates: those of the time-stamp server, by which tokens are checked.

    Raises:
        BadInput: a file can't be read, or holds something else, or no head.
    """
    key = None if public_key is None else load_public_key(public_key)
    roots = None if certificates is None else load_certificates(certificates)
    tally = HeadTally()
    for number, head in _read_heads(path):
        if head is None:
            tally.torn += 1
            continue
        tally.heads += 1
        why = await _why_not_in_log(store, head)
        if why is None and key is not None:
            why = _why_badly_signed(head, key)
            tally.signed += why is None
        if why is None and head.token is not None and roots is not None:
            try:
                tally.stamped_at = time_of_token(head.token, head.hash, roots)
                tally.stamped += 1
            except BadInput as error:
                why = str(error)
        tally.unchecked |= (head.signature is not None and key is None) or (head.token is not None and roots is None)
        if why is not None:
            tally.add_fault(f"{path}, line {number}: head {head.seq}: {why}")
    if not tally.heads:
        raise BadInput(f"heads: {path}: holds no head; give a file that tribunal audit publish wrote")
    return tally


def _read_heads(path: Path) -> Iterator[tuple[int, PublishedHead | None]]:
    """Yield the heads of a file with the numbers of their lines; None for a line that isn't whole."""
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                if line.strip():
                    try:
                        yield number, PublishedHead.model_validate_json(line)
                    except ValidationError:
                        yield number, None
    except (OSError, ValueError) as error:
        raise BadInput(f"heads: {path}: can't be read: {error}") from error


async def _why_not_in_log(store: Store, head: PublishedHead) -> str | None:
    if head.seq == 0:
        return None if head.hash == NOTHING else "is no head of an empty log"
    entries = await page(store, head.seq - 1, 1)
    if not entries or entries[0]["seq"] != head.seq:
        return "the log has no such entry any more: it was cut, or written anew"
    return None if entries[0]["hash"] == head.hash else "the log has another entry of this number: it was written anew"


def _why_badly_signed(head: PublishedHead, key: Ed25519PublicKey) -> str | None:
    from cryptography.exceptions import InvalidSignature

    if head.signature is None:
        return "isn't signed"
    try:
        key.verify(base64.b64decode(head.signature, validate=True), head.signed_text())
    except (InvalidSignature, binascii.Error, ValueError):
        other = "" if head.key == fingerprint(key) else f"; it names the key {head.key}"
        return f"its signature isn't one of the key {fingerprint(key)}{other}"
    return None
