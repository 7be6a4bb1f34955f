"""A transparency report by its command, in every format, with small counts and without."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from tests.service.decided_here import contested, courtroom, decided, judged, ran
from tribunal.service.replica.transparency import VerdictGroup, suppress_small

TIME = ("--from", "2020-01-01", "--to", "2100-01-01")


async def report(database: str, form: str, *more: str) -> str:
    done = await ran("dsa", "report", *TIME, "--format", form, "--database", database, *more)
    return done.stdout


@pytest.mark.long
async def test_a_report_says_what_was_decided_and_by_whom(database: str) -> None:
    async with courtroom(database) as (client, _):
        await decided(client, None, text="post-one", language="en")
        await decided(client, "NotHate", text="post-two", language="en")
        await decided(client, "Racist", "1.1", "1.2", text="post-three", language="ko")
        await contested(client, "NotHate", "1.2", text="4444")
        await judged(client, text="12345")
    told: dict[str, Any] = json.loads(await report(database, "json"))
    assert (told["posts"], told["outcomes"], told["hateful"]) == (
        5,
        {"verdict": 4, "pending": 1},
        2,
    )
    assert (told["automated"]["by_people"], told["automated"]["share"]) == (4, 0.0)
    assert (told["reversals"]["reviews"]["turned"], told["reversals"]["appeals"]["turned"]) == (
        2,
        1,
    )
    assert told["complaints"] == {"made": 1, "waiting": 0}
    by = {each["name"]: each for each in told["by_category"]}
    assert {name: (each["posts"], each["by_people"], each["appeals"]) for name, each in by.items()} == {
        "NotHate": (2, 2, 1), "Racist": (1, 1, 0), "Religious": (1, 1, 0),
    }  # fmt: skip
    assert {each["name"]: each["posts"] for each in told["by_language"]} == {
        "en": 2,
        "ko": 1,
        "unknown": 1,
    }
    assert {each["name"]: (each["posts"], each["hateful"], each["turned"]) for each in told["by_clause"]} == {
        "h-vli 1.1": (1, 1, 0), "h-vli 1.2": (2, 1, 1),
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(await report(database, "csv"), newline="")))
    values = {(row["table"], row["group"], row["measure"]): row["value"] for row in rows}
    assert values["total", "", "automated.by_people"] == "4"
    assert values["category", "NotHate", "posts"] == "2"
    page, text = await report(database, "html"), await report(database, "markdown")
    assert "<script" not in page
    for word in ("post-one", "kim", "user-7", "It is a song"):
        assert word not in page + text, "no post, no person"
    few = json.loads(await report(database, "json", "--suppress-below", "3"))
    assert [each["posts"] for each in few["by_category"]] == [None] * 3


def test_small_counts_are_left_out_with_what_would_give_them_away() -> None:
    def group(name: str, posts: int) -> VerdictGroup:
        numbers = {"hateful": 0, "by_people": 0, "changed": 0, "appeals": 0, "turned": 0}
        return VerdictGroup(
            name=name, posts=posts, automated_share=1.0, median_seconds=1.0, **numbers
        )

    shown = suppress_small([group("a", 100), group("b", 50), group("c", 2)], 5)
    assert [each.posts for each in shown] == [100, None, None], (
        "one alone would follow from the total"
    )
    shown = suppress_small([group("a", 100), group("b", 3), group("c", 2)], 5)
    assert [each.posts for each in shown] == [100, None, None]
    few = group("a", 100).model_copy(update={"hateful": 98, "by_people": 3, "turned": 0})
    [shown_one] = suppress_small([few], 5)
    assert (
        shown_one.hateful,
        shown_one.by_people,
        shown_one.automated_share,
        shown_one.turned,
    ) == (
        None,
        None,
        None,
        0,
    )
