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
from tribunal.eval.leaks.phrases import Tokens, split_runs, unit_of_token
from tribunal.files import read_regular, write_whole
from tribunal.schema import Frozen
from tribunal.text import parse_json

_EVERY = {"word": 3, "character": 8}
_BITS = 32


class ListHead(Frozen):
    """The first line of a hash list, in JSON."""

    dataset: str = Field(min_length=1)
    posts: int = Field(ge=0)
    words: int = Field(ge=0, description="how many hashes are of phrases of words; they come first")
    characters: int = Field(ge=0, description="how many are of phrases of characters")
    salt: str = Field(pattern="^[0-9a-f]{32}$")


class HashList:
    """The hashed phrases of a set. Those of words and those of characters lie apart, so that each errs less."""

    def __init__(self, head: ListHead, words: Iterable[int], characters: Iterable[int]) -> None:
        """Take the head and the hashes."""
        self.head, self.name = head, head.dataset
        self.hashes = {"word": frozenset(words), "character": frozenset(characters)}

    def __contains__(self, phrase: Tokens) -> bool:
        """Return whether a phrase is one of the set's, or is taken for one (`false_alarm_rate`)."""
        return hash_phrase(phrase, bytes.fromhex(self.head.salt)) in self.hashes[unit_of_token(phrase[0])]

    def false_alarm_rate(self, unit: str) -> float:
        """Return the share of the phrases of a unit that are taken for one of the set, and aren't in it."""
        return float(len(self.hashes[unit]) / 2**_BITS)

    def write(self, path: Path) -> None:
        """Write the list into a new file.

        Raises:
            BadInput: there is a file already, or it can't be written.
        """
        if path.exists():
            raise BadInput(f"write-hashes: {path}: is there already; give a new file")
        hashes = [each for unit in ("word", "character") for each in sorted(self.hashes[unit])]
        body = struct.pack(f"<{len(hashes)}I", *hashes)
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
    salt, count = secrets.token_bytes(16), 0
    hashes: dict[str, set[int]] = {"word": set(), "character": set()}
    for texts in posts:
        count += 1
        for phrase in (phrase for text in texts for phrase in _sampled_phrases(text)):
            hashes[unit_of_token(phrase[0])].add(hash_phrase(phrase, salt))
    words, characters = hashes["word"], hashes["character"]
    head = ListHead(dataset=dataset, posts=count, words=len(words), characters=len(characters), salt=salt.hex())
    return HashList(head, words, characters)


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
        number = held.words + held.characters
        if len(body) != number * _BITS // 8:
            raise ValueError("it is cut short, or goes on")
        hashes = struct.unpack(f"<{number}I", body)
        return HashList(held, hashes[: held.words], hashes[held.words :])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no hash list"
        raise BadInput(f"hashes: {path}: {reason}; make one with --write-hashes") from error
