"""Boxes in the image: asked for as an option, of the prosecution alone, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cases.letters import POST, Page, told
from tests.court import cue, decide, part
from tests.doubles import Request, ScriptedServer
from tribunal.errors import BadInput
from tribunal.explanations.view_maker import CaseAtHand
from tribunal.graphs import GRAPHS
from tribunal.review.explain import view_with_image
from tribunal.schema import Record

FIT = {"x0": 0.1, "y0": 0.2, "x1": 0.5, "y1": 0.9}
ASKED = "- box: where the image shows the cue"
COURTS = ("arcade", "multiround", "tribunal")


@pytest.fixture
def picture(tmp_path: Path) -> str:
    file = tmp_path / "a.png"
    Image.new("RGB", (200, 100), (40, 120, 40)).save(file)
    return str(file)


async def heard(
    given: Sequence[Any], graph: str = "arcade", **more: Any
) -> tuple[Record, list[Request]]:
    cues = [
        cue(f"claim-{number}", "Metaphor", **{"box": box})
        for number, box in enumerate(given, start=1)
    ]
    charged = {"indictment": {"cues": cues}, "investigation": {"cues": cues[:2]}}
    async with ScriptedServer(told(**charged)) as server:
        record = await decide(server, POST, graph=graph, **more)
        return record, server.requests


@pytest.mark.parametrize("graph", COURTS)
async def test_the_prosecution_is_asked_for_a_box_a_cue(graph: str, picture: str) -> None:
    record, requests = await heard([FIT, None], graph, image=picture, boxes=True)
    assert [each.box and each.box.model_dump() for each in record.cues] == [FIT, None]
    assert not [each for each in record.warnings if "box" in each]
    for request in requests:
        charging = part(request) in ("indictment", "investigation")
        assert (ASKED in request.text) == charging, part(request)
        assert ('"box"' in str(request.body).replace("'", '"')) == charging
    charge = next(request for request in requests if ASKED in request.text)
    assert charge.schema is not None
    offered, nothing = charge.schema["$defs"]["Cue"]["properties"]["box"]["anyOf"]
    assert (list(offered["properties"]), nothing) == (list(FIT), {"type": "null"})
    assert (offered["properties"]["x0"]["minimum"], offered["properties"]["x0"]["maximum"]) == (
        0,
        1,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {**FIT, "x0": 0.5}, {**FIT, "y0": 0.95}, {**FIT, "x1": 1.2}, {**FIT, "y0": -0.1}, {"x0": 0.1}, [10, 20, 50, 90],
        "upper left", {**FIT, "x0": "left"}, {**FIT, "x1": float("nan")}, 7,
    ],
)  # fmt: skip
async def test_a_wrong_box_is_dropped_with_a_warning_and_fails_nothing(
    wrong: Any, picture: str
) -> None:
    record, requests = await heard([FIT, wrong], image=picture, boxes=True)
    assert record.outcome == "verdict"
    assert [each.box is None for each in record.cues] == [False, True]
    assert [each for each in record.warnings if "C2" in each and "box" in each]
    assert len(requests) == 4, "nobody was asked again"


@pytest.mark.parametrize("settings", [{"boxes": True}, {"boxes": False, "image": True}])
async def test_without_the_option_or_an_image_nothing_is_asked_for(
    settings: dict[str, Any], picture: str
) -> None:
    settings = {**settings, "image": picture} if settings.pop("image", None) else settings
    record, requests = await heard([FIT], **settings)
    assert record.cues[0].box is None
    assert "box" not in " ".join(request.text for request in requests)


@pytest.mark.parametrize("graph", [each for each in GRAPHS if each not in COURTS])
async def test_graphs_without_cues_refuse_it(graph: str) -> None:
    with pytest.raises(BadInput, match=f"boxes: True: is a setting of .*{graph} has no use for it"):
        await decide(ScriptedServer(told()), POST, graph=graph, boxes=True)


async def test_the_explanation_marks_the_place_and_covers_the_image(picture: str) -> None:
    record, _ = await heard([FIT], image=picture, boxes=True)
    made = await view_with_image(CaseAtHand(record, {"text": POST, "image": picture}))
    found = Page(made._repr_html_())
    assert made.post.image is not None
    [shown] = found.all("img")
    assert str(shown["src"]).startswith("data:image/jpeg;base64,")
    assert "cue 1: claim-1" in str(shown["alt"])
    _, over = found.all("rect")
    assert {name: over[name] for name in ("x", "y", "width", "height")} == {
        "x": "20.0", "y": "20.0", "width": "80.0", "height": "70.0",
    }  # fmt: skip
    assert "from 10 % to 50 % of its width, from 20 % to 90 % of its height" in found.text
    gone = await view_with_image(
        CaseAtHand(record, {"text": POST, "image": "https://example.com/a.png"})
    )
    assert not Page(gone._repr_html_()).all("img")
    assert "The image isn't" in gone.post.image.absent if gone.post.image else False
