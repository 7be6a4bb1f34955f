"""Korean text end to end, on the published sets where they are at hand (they can't be copied into the project)."""

from __future__ import annotations

import csv

import pytest

from tests import SHARED_DATA
from tests.court import decide
from tests.doubles import ScriptedServer
from tests.graphs.panel_script import panel
from tribunal.cases.session import judge_post
from tribunal.context import context_from
from tribunal.retrievers.perspectives.perspective import find_perspective
from tribunal.retrievers.perspectives.store import build_index

DATA = SHARED_DATA / "korean"
needs_data = pytest.mark.skipif(
    not (DATA / "kodoli.csv").exists(), reason="the Korean sets are not here; set TRIBUNAL_SHARED_DATA to their folder"
)


def sample(name: str, number: int) -> list[str]:
    with (DATA / f"predict_{name}_sample.csv").open(encoding="utf-8-sig", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)][:number]


@pytest.mark.slow
@pytest.mark.long
@needs_data
async def test_build_two_sets_and_judge_rows_of_the_samples() -> None:
    for name in ("unsmile", "kodoli"):
        manifest = await build_index(find_perspective(name), DATA)
        assert manifest.hate > 1_000 < manifest.not_hate
    context = context_from({"perspectives": ["unsmile", "kodoli"]})
    for name in ("unsmile", "kodoli"):
        for text in sample(name, 3):
            record = await judge_post(text, graph="predict", context=context)
            assert record.outcome == "verdict"
            assert [opinion.id for opinion in record.opinions] == ["unsmile", "kodoli"]
            for opinion in record.opinions:
                assert opinion.language == "ko"
                assert len(opinion.examples) == 3
                assert text.strip() not in {example.text.strip() for example in opinion.examples}
    [text] = sample("kodoli", 1)
    async with ScriptedServer(panel()) as server:
        server.script = _labels
        record = await decide(server, text, graph="predict", perspectives=["unsmile", "kodoli"], mode="majority")
    assert len(server.requests) == 2
    assert all(text in request.text for request in server.requests)
    for opinion in record.opinions:
        shown = [all(example.text in request.text for example in opinion.examples) for request in server.requests]
        assert sorted(shown) == [False, True]


def _labels(request: object) -> dict[str, str]:
    names = request.schema["properties"]["label"]["enum"]  # type: ignore[attr-defined]
    return {"label": names[0], "reason": "이유"}
