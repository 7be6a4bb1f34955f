"""Check that no phrase of the shipped prompts, policies and examples stands in a data set that is at hand.

    ./run python .ci/leaks.py [FOLDER]

FOLDER, by default TRIBUNAL_SHARED_DATA or `../shared/data` beside the checkout, holds the data sets. A phrase is a run
of six words, or of ten characters of a script that is written without blanks, or a whole shorter text of a TOML file.
Exits with 1 and names each phrase with its prompt and its data file. Without a folder it says so, and exits with 0.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
LENGTHS = {"word": 6, "character": 10}
SHORTEST = {"word": 3, "character": 8}  # of a whole text that is shorter than a phrase
CHARACTER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"  # Thai to Hangul
BLANKLESS = re.compile(rf"[{CHARACTER}]")
TOKEN = re.compile(rf"\0|[{CHARACTER}]|[^\W_{CHARACTER}]+(?:'[^\W_{CHARACTER}]+)*")
# What a template fills in becomes \0, a token that no post has.
TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)

Tokens = tuple[str, ...]


def runs_of(text: str) -> Iterator[tuple[str, Tokens]]:
    """Yield each run of neighbouring words or characters, with its unit. Case and punctuation don't count."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    for unit, tokens in groupby(
        TOKEN.findall(plain), lambda token: "character" if BLANKLESS.match(token) else "word"
    ):
        yield unit, tuple(tokens)


def strings_in(value: Any) -> Iterator[str]:
    """Yield every text of a JSON or TOML value, but no key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_in(part)


def shipped_phrases() -> dict[Tokens, str]:
    """Return the phrases of every prompt, policy and example, each with the file that it stands in."""
    phrases: dict[Tokens, str] = {}
    for path in sorted(
        each for each in (PROJECT / "prompts").rglob("*") if each.suffix in (".md", ".toml", ".txt")
    ):
        content = path.read_text("utf-8")
        is_toml = path.suffix == ".toml"
        for text in (
            strings_in(tomllib.loads(content)) if is_toml else [TEMPLATE.sub("\0", content)]
        ):
            for unit, tokens in runs_of(text):
                length = min(len(tokens), LENGTHS[unit]) if is_toml else LENGTHS[unit]
                if length >= SHORTEST[unit]:
                    starts = range(len(tokens) - length + 1)
                    phrases |= {
                        tokens[at : at + length]: str(path.relative_to(PROJECT)) for at in starts
                    }
    return phrases


def main() -> int:
    """Look for every phrase in every data file."""
    usual = os.environ.get("TRIBUNAL_SHARED_DATA") or PROJECT.parent / "shared" / "data"
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else usual)
    files = [
        each
        for each in sorted(folder.rglob("*"))
        if each.suffix in (".json", ".csv", ".tsv", ".txt")
    ]
    if not files:
        sys.stdout.write(f"leaks: skipped, no data set in {folder}\n")
        return 0
    phrases, leaks = shipped_phrases(), set[str]()
    beginnings = {phrase[:3] for phrase in phrases}
    for path in files:
        content = path.read_text("utf-8-sig")
        texts = strings_in(json.loads(content)) if path.suffix == ".json" else content.splitlines()
        for unit, tokens in (run for text in texts for run in runs_of(text)):
            for at in (at for at in range(len(tokens)) if tokens[at : at + 3] in beginnings):
                for phrase in (
                    tokens[at : at + length] for length in range(SHORTEST[unit], LENGTHS[unit] + 1)
                ):
                    if phrase in phrases:
                        leaks.add(
                            f"{phrases[phrase]}: {' '.join(phrase)!r} stands in {path.relative_to(folder)}"
                        )
    summary = f"leaks: {len(leaks)} found of {len(phrases):,} phrases in {len(files)} files"
    sys.stdout.write("\n".join([*sorted(leaks), summary, ""]))
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
