"""The index of a perspective: how long it takes to build, to open and to search, and how much memory."""

from __future__ import annotations

import asyncio
import csv
import gc
import os
import random
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.machine import in_a_process, peak, resident
from bench.table import table
from tribunal.process.terminal import say


def perspectives(quick: bool) -> None:
    """KODOLI where it is at hand, else text of its size that is made up on the spot."""
    say("### Perspectives (tfidf, the default embedding)\n", lines=True)
    rows = []
    for number in (2_000,) if quick else (38_525, 40_000, 200_000):
        got = in_a_process(measure_index, number)
        rows.append(
            (
                f"{number:,} {got['texts']}", f"{got['build']:.1f} s", f"{got['build_mb']:.0f} MB",
                f"{got['index_mb']:.0f} MB", f"{1000 * got['open']:.1f} ms", f"{1000 * got['p50']:.1f} ms",
                f"{1000 * got['p95']:.1f} ms", f"{got['search_mb']:.0f} MB",
            )
        )  # fmt: skip
    head = (
        "rows",
        "build",
        "memory while building",
        "index",
        "open",
        "search p50",
        "p95",
        "memory while searching",
    )
    table(head, rows)
    say("Memory is what the process grew by after its libraries were loaded.\n", lines=True)


def korean_texts(number: int) -> tuple[list[str], str]:
    """KODOLI's comments, from the folder that TRIBUNAL_SHARED_DATA names, told apart by a number where they repeat."""
    folder = Path(os.environ.get("TRIBUNAL_SHARED_DATA") or "../shared/data")
    try:
        with (folder / "korean" / "kodoli.csv").open(encoding="utf-8-sig", newline="") as file:
            held, what = [row["sentences"] for row in csv.DictReader(file)], "KODOLI"
    except OSError:
        draw = random.Random(7)
        held = [
            "".join(chr(draw.randint(0xAC00, 0xD7A3)) for _ in range(30)) for _ in range(38_525)
        ]
        what = "made-up Hangul"
    kept = held[:number]
    for place in range(len(held), number):
        words = held[place % len(held)].split() or ["…"]
        words[place % len(words)] = f"{place}번째"
        kept.append(" ".join(words))
    return kept, what if number <= len(held) else f"{what}, a word changed in each copy"


def measure_index(number: int) -> dict[str, Any]:
    """Build, open and search an index of so many texts; seconds and MB."""
    import faiss
    import pyarrow.parquet

    from tribunal.retrievers.perspectives.perspective import Perspective
    from tribunal.retrievers.perspectives.store import build_index, open_index

    del faiss, pyarrow  # loaded now, so that libraries don't count as memory of the index

    texts, what = korean_texts(number)
    perspective = Perspective.model_validate(
        {
            "name": "bench", "language": "ko", "criterion": "none",
            "source": {
                "files": ["texts.csv"], "text": "text", "obtain": "made for the benchmark",
                "label": {"column": "label", "hate": ["1"], "not_hate": ["0"]},
            },
        }
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        with (Path(folder) / "texts.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [("text", "label"), *((text, place % 2) for place, text in enumerate(texts))]
            )
        queries = texts[:: max(1, len(texts) // 100)][:100]
        del texts

        async def measured() -> dict[str, Any]:
            before, started = peak(), time.perf_counter()
            manifest = await build_index(perspective, Path(folder), out=Path(folder) / "index")
            built, grown = time.perf_counter() - started, peak() - before
            gc.collect()
            before, started = resident(), time.perf_counter()
            index = open_index(Path(folder) / "index" / perspective.name, perspective)
            opened, took = time.perf_counter() - started, []
            for query in queries:
                started = time.perf_counter()
                await index.search(query)
                took.append(time.perf_counter() - started)
            return {
                "texts": what, "build": built, "build_mb": grown,
                "index_mb": sum(note.bytes for note in manifest.files if note != manifest.rows_file) / 1024**2,
                "open": opened, "p50": statistics.median(took), "p95": statistics.quantiles(took, n=20)[-1],
                "search_mb": resident() - before,
            }  # fmt: skip

        return asyncio.run(measured())
