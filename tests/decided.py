"""Decided cases for tests, and a store of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tribunal.prompts.policy import load_policy
from tribunal.retrievers.precedents.building import StoreBuild, build_store
from tribunal.retrievers.precedents.store import CaseSource, DecidedCase, make_decided_case

DATABASE = CaseSource(kind="database", cases=0)


def decided(number: int, text: str, category: str = "Racist", **other: Any) -> DecidedCase:
    """A case that was changed by a person under the shipped policy, in the year 2026, on the day of its number."""
    made = make_decided_case(
        **{
            "case": f"case-{number}",
            "post_id": f"post-{number}",
            "text": text,
            "category": category,
            "hateful": category != "NotHate",
            "how": "changed",
            "note": f"note-{number}",
            "at": f"2026-10-{number:02}T09:00:00+00:00",
            "policy": "h-vli",
            "policy_sha": load_policy("h-vli").sha,
            **other,
        }
    )
    assert made is not None
    return made


# Of the post "They are the weeds in our garden."
WEEDS = (
    decided(1, "Those people are weeds in our garden.", "Racist"),
    decided(
        2,
        "The weeds of our garden are back again.",
        "NotHate",
        how="accepted",
        note="it speaks of plants",
    ),
    decided(
        3,
        "They are the weeds, pull them out of our garden!",
        "Cruel",
        policy="ours",
        policy_sha="0" * 16,
    ),
)


async def store_of(
    cases: Sequence[DecidedCase] = WEEDS, name: str = "ours", **how: Any
) -> StoreBuild:
    """A store of these cases in the data folder."""
    return await build_store(name, cases, [how.pop("source", DATABASE)], **how)


def held_by(folder: Path) -> bytes:
    """Everything that lies in a store's folder."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
