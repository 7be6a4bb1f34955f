"""Whole cases through the real graphs, played by the rehearsal model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.nodes.rehearsal.rehearsed import DIRECT, FAINT, HARMLESS, IMPLIED, decided
from tribunal.nodes.rehearsal.reading import read_post
from tribunal.schema import JSON


@pytest.mark.parametrize(
    ("text", "track", "category", "calls"),
    [
        (DIRECT, "fast_track", "OtherHate", 4),
        ("Those filthy Jews.", "fast_track", "Religious", 4),
        ("Mexicans should be deported", "fast_track", "Racist", 4),
        ("I hate lesbians", "fast_track", "Homophobic", 4),
        ("Immigrants are not vermin.", "fast_track", "NotHate", 4),
        (IMPLIED, "deep_dive", "OtherHate", 8),
        ("Women belong in the kitchen", "deep_dive", "Sexist", 8),
        ("Go back to your own country!", "fast_track", "Racist", 4),
        ("They are taking our jobs again", "deep_dive", "OtherHate", 8),
        (FAINT, "deep_dive", "NotHate", 8),
        (HARMLESS, "dismissed", "NotHate", 2),
        ("The weeds in our garden are terrible this year.", "dismissed", "NotHate", 2),
        ("Immigrants built this railway.", "dismissed", "NotHate", 2),
        ("이민자들은 우리의 이웃이다", "dismissed", "NotHate", 2),
    ],
)
async def test_every_track_is_reached(text: str, track: str, category: str, calls: int) -> None:
    ruling = await decided(text)
    assert (ruling["track"], ruling["outcome"]["category"], len(ruling["calls"])) == (
        track,
        category,
        calls,
    )


@pytest.mark.parametrize(
    ("text", "category"), [(DIRECT, "Hateful"), (IMPLIED, "Hateful"), (HARMLESS, "NotHate")]
)
@pytest.mark.parametrize("name", ["arcade", "multiround", "baseline"])
async def test_every_graph_under_the_binary_scheme(name: str, text: str, category: str) -> None:
    ruling = await decided(text, name, scheme="binary")
    assert ruling["outcome"]["category"] == category
    assert ruling["outcome"]["label"] == (category == "Hateful")


async def test_the_debate_moves_from_round_to_round() -> None:
    said = [
        (turn["id"], each["stance"], each["argument"])
        for turn in (await decided(IMPLIED))["transcript"]
        for each in turn["arguments"]
    ]
    assert [(turn, stance) for turn, stance, _ in said] == [
        ("defender/1", "refute"), ("prosecutor/2", "press"), ("defender/2", "concede"),
        ("prosecutor/3", "press"), ("defender/3", "concede"),
    ]  # fmt: skip
    reasons = [words for _, stance, words in said if stance != "concede"]
    assert len(set(reasons)) == len(reasons)


async def test_the_same_post_gets_the_same_case() -> None:
    def heard(ruling: JSON) -> Any:
        return (
            ruling["transcript"],
            ruling["outcome"],
            [call["prompt_tokens"] for call in ruling["calls"]],
        )

    first = heard(await decided(IMPLIED))
    read_post.cache_clear()
    assert heard(await decided(IMPLIED)) == first


# --- Any policy -------------------------------------------------------------------------------------------------------

VETERANS = """
name = "club"
definition = "We protect these."
exclusions = "Nothing else."
protected_groups = ["veterans", "faith", "political affiliation"]
fine = [
    {name = "Fine", meaning = "nothing"},
    {name = "Creed", meaning = "against a faith"},
    {name = "Veteran abuse", meaning = "against veterans"},
    {name = "Rest", meaning = "any other"},
]
binary = [{name = "Keep", meaning = "stays"}, {name = "Remove", meaning = "goes"}]
"""


@pytest.mark.parametrize(
    ("text", "category", "group"),
    [
        ("Veterans are parasites", "Veteran abuse", "veterans"),
        ("Muslims are scum", "Creed", "faith"),
        ("Republicans are scum", "Rest", "political affiliation"),
        # Not protected here, whether they are named or not.
        ("Immigrants are scum", "Fine", "veterans"),
        ("Go back to your own country!", "Fine", "veterans"),
        ("They are taking our jobs", "Fine", "veterans"),
        ("We are the garden, they the weeds in our country", "Fine", "veterans"),
    ],
)
async def test_a_policy_of_ones_own(tmp_path: Path, text: str, category: str, group: str) -> None:
    file = tmp_path / "club.toml"
    file.write_text(VETERANS, "utf-8")
    ruling = await decided(text, policy=str(file))
    assert ruling["outcome"]["category"] == category
    assert ruling["cues"][0]["characteristic"] == group
    binary = await decided(text, policy=str(file), scheme="binary")
    assert binary["outcome"]["category"] == ("Keep" if category == "Fine" else "Remove")
