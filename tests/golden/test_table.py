"""The table of docs/systems.md that says who is told what, made from what each seat is sent."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

from tests import PROJECT
from tests.golden.test_requests import CASES, KOREAN, asked
from tests.graphs.test_who_knows_what import POLICY
from tests.test_docs import holds

TOLD = ("definition", "exclusions", "excuses", "together", "examples")


def _place(row: str) -> tuple[int, str]:
    graph, _, part = row.partition("|")
    return [each for each, _, _ in CASES.values()].index(graph), part


async def test_who_is_told_what(tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_text(POLICY, "utf-8")
    picture = str(tmp_path / "garden.png")
    Image.new("RGB", (64, 48), (40, 120, 40)).save(picture)
    rows: dict[str, list[str]] = {}
    for name, (graph, settings, _) in CASES.items():
        if "task" in settings:
            continue
        for part, request in (await asked(name, picture, KOREAN, True, policy=str(tmp_path / "marked.toml"))).items():
            words = "\n".join(str(message["content"]) for message in request.body["messages"])
            told = {found.lower() for found in re.findall(r"WORDS-OF-(?:THE-)?([A-Z]+)", words)}
            text = words.replace("\\n", "\n")
            shown = sorted(set(re.findall(r"<<<([\w-]+) [0-9a-f]{16}", text)) - {"post", "examples"})
            heat = request.temperature
            row = [graph, re.sub(r"-again$", "", part).replace("-", " ")]
            row += ["yes" if each in told else "" for each in TOLD]
            row += ["yes" if request.images else "", ", ".join(shown), "" if heat is None else f"{heat:g}"]
            held = rows.setdefault("|".join(row[:2]), row)
            for column in (8, 9):  # of a part that is asked several times: all that it was sent
                held[column] = ", ".join(sorted({*filter(None, f"{held[column]}, {row[column]}".split(", "))}))
    head = ["graph", "part", *TOLD, "image", "what others said, by its mark", "temperature"]
    lines = [head, ["---"] * len(head), *(rows[each] for each in sorted(rows, key=_place))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    holds(PROJECT / "docs" / "systems.md", "who", table)
