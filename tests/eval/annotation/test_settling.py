"""Test what several people's labels come to: the rules of the ARCADE paper's Appendix C and Table 1, case by case."""

from __future__ import annotations

import pytest

from tribunal.eval.annotation.consensus import SettledPost, measure_steps, settle_post
from tribunal.eval.annotation.label_studio import (
    AnnotationHead,
    AnnotationPost,
    AnnotatorLabels,
    CategoryOption,
    IntendedLabel,
)

NOT, RACIST, SEXIST, FAITH = "NotHate", "Racist", "Sexist", "Religious"
LETTERS = {"N": NOT, "R": RACIST, "S": SEXIST, "F": FAITH}
HEAD = AnnotationHead(
    annotators=3, dataset={}, policy="h-vli", policy_sha="", scheme="fine", groups=("race", "religion"),
    categories=tuple(CategoryOption(name=name, meaning="", hate=name != NOT) for name in LETTERS.values()),
    inline=False, prefix="", pictured=True, conversation=False,
)  # fmt: skip


def labels(
    joint: str, *, second: str = "", text: str = "", image: str = ""
) -> list[AnnotatorLabels]:
    """A letter for each annotator's label, in small where they weren't sure; so for the experts, and for each side."""
    made = []
    for at, letter in enumerate(joint + second):
        sides = [
            LETTERS[side[at]] if at < len(side) and side[at] in LETTERS else None
            for side in (text, image)
        ]
        stage = "first" if at < len(joint) else "second"
        made.append(
            AnnotatorLabels(
                by=str(at),
                stage=stage,
                joint=LETTERS[letter.upper()],
                text=sides[0],
                image=sides[1],
                unsure=letter.islower(),
                target=("race",) if letter in "RS" else (),
            )
        )
    return made


def settled(given: list[AnnotatorLabels], **post: object) -> SettledPost:
    return settle_post(
        AnnotationPost.model_validate({"id": "p", "text": "words", "image": "p.png", **post}),
        given,
        HEAD,
    )


@pytest.mark.parametrize(
    ("joint", "second", "comes_to"),
    [
        ("NNN", "", ("perfect", NOT, False, None)),
        ("RRR", "", ("perfect", RACIST, True, None)),
        ("RRS", "", ("strong", RACIST, True, None)),
        ("NNR", "", ("weak", NOT, False, None)),
        ("NRR", "", ("weak", RACIST, True, None)),
        ("NRS", "", ("none", None, None, "majority")),
        ("RSF", "", ("strong", None, True, "category")),
        ("RSF", "S", ("strong", SEXIST, True, None)),
        ("RSF", "N", ("adjudicated", NOT, False, None)),
        ("NRS", "R", ("adjudicated", RACIST, True, None)),
        ("NRS", "RN", ("none", None, None, "majority")),
        ("NRS", "RNR", ("adjudicated", RACIST, True, None)),
        ("NRS", "r", ("none", None, None, "majority")),
        ("RRn", "", ("weak", RACIST, True, "unsure")),
        ("RRn", "R", ("perfect", RACIST, True, None)),
        ("RRn", "N", ("weak", RACIST, True, None)),
        ("Rrn", "NR", ("weak", RACIST, True, None)),
        ("Rsn", "N", ("weak", NOT, False, None)),
        ("RSn", "F", ("strong", None, True, "category")),
        ("RSn", "FR", ("strong", RACIST, True, None)),
        ("RR", "", ("perfect", RACIST, True, "annotators")),
        ("RR", "S", ("strong", RACIST, True, None)),
        ("NNRR", "", ("none", None, None, "majority")),
    ],
)
def test_levels_of_consensus(
    joint: str, second: str, comes_to: tuple[str, str | None, bool | None, str | None]
) -> None:
    found = settled(labels(joint, second=second))
    assert (found.level, found.category, found.hate, found.lacks) == comes_to
    assert found.raw == tuple(LETTERS[letter.upper()] for letter in joint)


@pytest.mark.parametrize(
    ("text", "image", "joint", "pattern", "difficulty"),
    [
        ("N", "N", "N", "000", "Easy"), ("N", "R", "R", "011", "Easy"), ("R", "N", "R", "101", "Easy"),
        ("R", "S", "R", "111", "Easy"), ("R", "N", "N", "100", "Normal"), ("N", "R", "N", "010", "Normal"),
        ("N", "N", "R", "001", "Hard"), ("R", "R", "N", "110", "Hard"),
    ],
)  # fmt: skip
def test_patterns_and_difficulty_are_those_of_table_1(
    text: str, image: str, joint: str, pattern: str, difficulty: str
) -> None:
    found = settled(labels(joint * 3, text=text * 3, image=image * 3))
    assert (found.pattern, found.difficulty) == (pattern, difficulty)


def test_a_side_of_which_annotators_say_nothing_or_are_tied_has_no_label() -> None:
    silent = settled(labels("NNN"))
    assert (silent.text.hate, silent.image.hate, silent.pattern) == (None, None, None)
    tied = settled(labels("NNN", text="RN-", image="NNN"))
    assert (tied.text.hate, tied.image.hate, tied.pattern) == (None, False, None)
    divided = settled(labels("NNN", text="RSF", image="NNN"))
    assert (divided.text.category, divided.text.hate, divided.pattern) == (None, True, "100")
    assert settled(labels("RRR", text="RRR"), image=None).pattern is None


@pytest.mark.parametrize(
    ("category", "hate", "joint", "aligned"),
    [
        (RACIST, True, "RRN", True), (RACIST, True, "SSS", False), (RACIST, True, "NNN", False),
        (None, True, "SSS", True), (None, False, "SSS", False), (None, True, "RSF", True), (RACIST, True, "RSF", False),
        (RACIST, True, "NRS", None),
    ],
)  # fmt: skip
def test_intent_alignment_is_strict_where_the_intended_category_is_known(
    category: str | None, hate: bool, joint: str, aligned: bool | None
) -> None:
    found = settled(
        labels(joint), intended=IntendedLabel(category=category, hate=hate, name="source")
    )
    assert found.aligned is aligned
    assert settled(labels(joint)).aligned is None


def test_a_target_is_named_by_more_than_half_of_those_who_gave_the_label() -> None:
    assert settled(labels("RRN")).target == ("race",)
    assert settled(labels("NNR")).target == ()


def test_agreement_rises_by_what_the_steps_leave_out() -> None:
    posts = [
        settled(labels(joint), id=str(at))
        for at, joint in enumerate(("NNN", "RRR", "NRS", "NNR", "RRn"))
    ]
    found = {
        step["name"]: step
        for step in measure_steps(posts, HEAD, ("perfect", "strong"), aligned=False)
    }
    assert {name: step["posts"] for name, step in found.items()} == {
        "raw": 5,
        "quality": 4,
        "consensus": 2,
    }
    # Of 15 labels 7 are N, 7 R, 1 S; two posts agree, two by a pair of three, one not at all.
    chance = (7**2 + 7**2 + 1) / 15**2
    assert found["raw"]["categories"]["kappa"] == pytest.approx(
        ((2 + 2 / 3) / 5 - chance) / (1 - chance)
    )
    assert found["consensus"]["categories"]["kappa"] == 1.0
