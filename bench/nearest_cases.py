"""How often posts of each n-gram similarity have the same label: `python -m bench.nearest_cases FILE TEXT LABEL…`.

FILE is CSV, TSV or a JSON object of rows; TEXT and LABEL are columns. This measures where the desk's nearest decided
cases begin to say something (`tribunal.service.replica.near_copies.LEAST_SIMILARITY`).
"""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import random
import sys
from pathlib import Path

import numpy as np

from bench.table import table
from tribunal.process.terminal import say
from tribunal.retrievers.indexes.ngrams import fit_ngrams

_DECIDED, _NEW = 2_000, 1_000  # posts that are compared with each other
_BOUNDS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.01)


def _read_posts(path: Path, text: str, labels: list[str]) -> list[tuple[str, str]]:
    words = path.read_text("utf-8")
    if path.suffix == ".json":
        rows = list(json.loads(words).values())
    else:
        rows = list(
            csv.DictReader(words.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
        )
    return [(row[text], " ".join(str(row[each]) for each in labels)) for row in rows]


async def nearest_cases(path: Path, text: str, labels: list[str]) -> None:
    """Print the share of pairs with the same label, by similarity."""
    posts = _read_posts(path, text, labels)
    random.Random(0).shuffle(posts)
    decided, new = posts[:_DECIDED], posts[_DECIDED : _DECIDED + _NEW]
    ngrams = await asyncio.to_thread(fit_ngrams, [words for words, _ in decided])
    passages = np.asarray(await ngrams.embed([words for words, _ in decided], "passage"))
    queries = np.asarray(await ngrams.embed([words for words, _ in new], "query"))
    similarity = queries @ passages.T
    same = np.array([[label == other for _, other in decided] for _, label in new])
    rows = [("all", str(same.size), f"{same.mean():.3f}")]
    for low, high in itertools.pairwise(_BOUNDS):
        within = (similarity >= low) & (similarity < high)
        share = f"{same[within].mean():.3f}" if within.any() else ""
        rows.append((f"{low:.2f} to {high:.2f}", str(within.sum()), share))
    table(("similarity", "pairs", "same label"), rows)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        say(__doc__.splitlines()[0])
        sys.exit(2)
    asyncio.run(nearest_cases(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
