"""The tables of docs/concepts: the policy, material and temperature of each seat, read from its requests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from tests import PROJECT
from tests.golden.test_requests import CASES, KOREAN, asked
from tests.graphs.test_who_knows_what import POLICY
from tests.test_docs import holds

TOLD = ("definition", "exclusions", "expression", "excuses", "together", "examples")
COURTS = ("arcade", "multiround", "tribunal")
PAGES = {
    "arcade": "arcade",
    "multiround": "arcade",
    "predict": "predict",
    "antihate": "antihate",
    "mv_debate": "mv_debate",
    "baseline": "peers",
    "self_consistency": "peers",
    "symmetric_debate": "peers",
    "tribunal": "court",
}
HEAD = (
    "part | parts of the policy | material from others, by its mark | temperature | graphs",
    "---|---|---|---|---",
)


@pytest.mark.long
async def test_who_is_told_what(tmp_path: Path) -> None:
    (tmp_path / "marked.toml").write_text(POLICY, "utf-8")
    picture = str(tmp_path / "garden.png")
    Image.new("RGB", (64, 48), (40, 120, 40)).save(picture)
    # For each graph and part: what it is told of the policy, the marks of what it is shown, its temperatures.
    sent: dict[tuple[str, str], tuple[set[str], set[str], set[str]]] = {}
    for name, (graph, settings, _) in CASES.items():
        if "task" in settings:
            continue
        heeded = {} if graph in ("predict", "antihate") else {"policy_examples": True}
        own = {"policy": str(tmp_path / "marked.toml"), **heeded}
        for part, request in (await asked(name, picture, KOREAN, True, **own)).items():
            assert request.images, f"{graph}, {part}: is not shown the image"
            words = "\n".join(str(message["content"]) for message in request.body["messages"])
            text, heat = words.replace("\\n", "\n"), request.temperature
            told, marks, heats = sent.setdefault(
                (graph, re.sub(r"-again$", "", part).replace("-", " ")), (set(), set(), set())
            )
            told |= {found.lower() for found in re.findall(r"WORDS-OF-(?:THE-)?([A-Z]+)", words)}
            marks |= set(re.findall(r"<<<([\w-]+) [0-9a-f]{16}", text)) - {"post"}
            heats |= set() if heat is None else {f"{heat:g}"}
    # Graphs whose parts are sent the same share a row. So do ARCADE's courts, with what the hybrid shows besides.
    rows: dict[tuple[str, ...], list[str]] = {}
    for (graph, part), (told, marks, heats) in sorted(sent.items(), key=lambda each: each[0][1]):
        if graph in COURTS and ("arcade", part) in sent and graph != "arcade":
            assert told == sent["arcade", part][0]
            continue
        courts = [each for each in COURTS if graph == "arcade" and (each, part) in sent]
        besides = set[str]().union(*(sent[each, part][1] for each in courts)) - marks
        heats = heats.union(*(sent[each, part][2] for each in courts))
        shown = [
            ", ".join(sorted(marks)),
            f"tribunal also: {', '.join(sorted(besides))}" if besides else "",
        ]
        missing = [each for each in TOLD if each not in told]
        policy = ", ".join(sorted(told, key=TOLD.index))
        if len(missing) < 3:
            policy = f"all but {' and '.join(missing)}" if missing else "all"
        row: tuple[str, ...] = (
            part,
            policy,
            "; ".join(filter(None, shown)),
            ", ".join(sorted(heats)),
        )
        rows.setdefault(row, []).extend(courts or [graph])
    # A row is on the page of its first graph; rows of the hybrid only are on its own page.
    lines: dict[str, list[str]] = {page: [*HEAD] for page in PAGES.values()}
    order = list(PAGES)
    for row, graphs in rows.items():
        graphs.sort(key=order.index)
        lines[PAGES[graphs[0]]].append(" | ".join([*row, ", ".join(graphs)]))
    for page, rows_of_page in lines.items():
        table = "\n".join(f"| {line} |" for line in rows_of_page)
        holds(PROJECT / "docs" / "concepts" / f"{page}.md", "who", table)
