"""Hash lists: what a set's phrases can be recognised by where the set itself can't lie, as in a repository.

A list holds 32 bits of a salted hash of every third phrase of a post (of every eighth of characters), by size. So a
prompt that shares seven words with a post, or 17 characters, is found. The set can't be built again from it: posts
shorter than a phrase aren't in it, and to go from one phrase to the next, three words at once have to be guessed. Of
10,000 words there are 10^12 such guesses; a list of 16,000 phrases takes 4 million of them for its own.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import Field

from tribunal.errors import BadInput
from tribunal.eval.leaks.phrases import Tokens, split_runs
from tribunal.files import read_regular, write_whole
from tribunal.schema import Frozen
from tribunal.text import parse_json

_EVERY = {"word": 3, "character": 8}
_BITS = 32


class ListHead(Frozen):
    """The first line of a hash list, in JSON."""

    dataset: str = Field(min_length=1)
    posts: int = Field(ge=0)
    phrases: int = Field(ge=0)
    salt: str = Field(pattern="^[0-9a-f]{32}$")


class HashList:
    """The hashed phrases of a set."""

    def __init__(self, head: ListHead, hashes: Iterable[int]) -> None:
        """Take the head and the hashes."""
        self.head, self.name, self.hashes = head, head.dataset, frozenset(hashes)

    def __contains__(self, phrase: Tokens) -> bool:
        """Return whether a phrase is one of the set's, or is taken for one (`false_alarm_rate`)."""
        return hash_phrase(phrase, bytes.fromhex(self.head.salt)) in self.hashes

    @property
    def false_alarm_rate(self) -> float:
        """Return how many of the phrases that aren't in the set are taken for one of it."""
        return float(len(self.hashes) / 2**_BITS)

    def write(self, path: Path) -> None:
        """Write the list into a new file.

        Raises:
            BadInput: there is a file already, or it can't be written.
        """
        if path.exists():
            raise BadInput(f"write-hashes: {path}: is there already; give a new file")
        body = struct.pack(f"<{len(self.hashes)}I", *sorted(self.hashes))
        try:
            write_whole(path, self.head.model_dump_json().encode() + b"\n" + body)
        except OSError as error:
            raise BadInput(f"write-hashes: {path}: {error.strerror}; give a file that can be written") from error


def hash_phrase(phrase: Tokens, salt: bytes) -> int:
    """Return the hash of a phrase, of 32 bits."""
    return int.from_bytes(
        hashlib.blake2b("\x1f".join(phrase).encode(), digest_size=_BITS // 8, key=salt).digest(), "big"
    )


def hash_posts(dataset: str, posts: Iterable[Iterable[str]]) -> HashList:
    """Return the hash list of these posts, each of which is its texts."""
    salt, hashes, count = secrets.token_bytes(16), set[int](), 0
    for texts in posts:
        count += 1
        hashes.update(hash_phrase(phrase, salt) for text in texts for phrase in _sampled_phrases(text))
    return HashList(ListHead(dataset=dataset, posts=count, phrases=len(hashes), salt=salt.hex()), hashes)


def _sampled_phrases(text: str) -> Iterator[Tokens]:
    for run in split_runs(text):
        yield from (phrase for place, phrase in run.phrases() if place % _EVERY[run.unit] == 0)


def read_hash_list(path: Path) -> HashList:
    """Return the hash list in a file.

    Raises:
        BadInput: it can't be read, or is none.
    """
    try:
        head, _, body = read_regular(path).partition(b"\n")
        held = ListHead.model_validate(parse_json(head))
        if len(body) != held.phrases * _BITS // 8:
            raise ValueError("it is cut short, or goes on")
        return HashList(held, struct.unpack(f"<{held.phrases}I", body))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no hash list"
        raise BadInput(f"hashes: {path}: {reason}; make one with --write-hashes") from error
