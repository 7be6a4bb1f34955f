"""SBIC, GHC and HateCheck on small files in their form: text, label, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.datasets.published import labels, posts, table
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset

# ----------------------------------------------------------------------------------------------------------------- sbic


def sbic(post: str, offensive: object, who: object = "", groups: str = "[]") -> dict[str, object]:
    return {
        "whoTarget": who,
        "intentYN": 0.0,
        "sexYN": 0.0,
        "offensiveYN": offensive,
        "post": post,
        "targetMinority": groups,
        "targetCategory": '["culture"]' if groups != "[]" else "[]",
        "targetStereotype": "[]",
        "dataSource": "r/x",
        "hasBiasedImplication": 1,
    }


def test_sbic_reads_its_three_aggregated_files(tmp_path: Path) -> None:
    table(
        tmp_path / "SBIC.v2.agg.trn.csv",
        [sbic('a "quoted"\nline', 0.5, 1.0, '["dutch folks"]'), sbic("b", 0.33)],
    )
    table(tmp_path / "SBIC.v2.agg.dev.csv", [sbic("c", 1.0, 0.0), sbic("d", "")])
    table(tmp_path / "SBIC.v2.agg.tst.csv", [sbic("e", 0.0)])
    opened = open_dataset("sbic", tmp_path)
    found = list(opened)
    assert labels(found) == [
        ("trn-1", 1, True),
        ("trn-2", 0, False),
        ("dev-1", 1, True),
        ("tst-1", 0, False),
    ]
    assert found[0].text == 'a "quoted"\nline'
    assert found[0].fields == {
        "who_target": 1.0, "targets": ["dutch folks"], "category": ["culture"], "offensive": 0.5, "split": "trn",
    }  # fmt: skip
    assert [post.fields["who_target"] for post in found] == [1.0, None, 0.0, None]
    assert opened.skipped == {"no label": 1}
    assert [post.id for post in posts("sbic", tmp_path, "test")] == ["tst-1"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (sbic("a", "nan"), "row 1: offensiveYN = 'nan': is not a number"),
        (sbic("a", "yes"), "row 1: offensiveYN = 'yes': is not a number"),
        (
            sbic("a", 1.0, 0.0, "dutch folks"),
            "row 1: targetMinority = 'dutch folks': is not a JSON list; the aggregated",
        ),
    ],
)
def test_sbic_refuses_other_values(tmp_path: Path, row: dict[str, object], said: str) -> None:
    table(tmp_path / "SBIC.v2.agg.tst.csv", [row])
    with pytest.raises(BadInput, match=said):
        posts("sbic", tmp_path, "test")


# ------------------------------------------------------------------------------------------------------------------ ghc


GHC = ("Hate", "HD", "CV", "VO", "REL", "RAE", "SXO", "GEN", "IDL", "NAT", "POL", "MPH", "EX", "IM")


def annotation(post: int, annotator: int, *given: str) -> dict[str, object]:
    return {"ID": post, "Annotator": annotator, "Text": f"post {post}"} | {
        name: int(name in given) for name in GHC
    }


def test_ghc_takes_what_more_than_half_of_the_annotators_gave(tmp_path: Path) -> None:
    rows = [
        annotation(1, 0, "HD", "IM", "REL"), annotation(2, 0, "HD"), annotation(3, 0, "CV", "EX"),
        annotation(1, 1, "HD", "IM"), annotation(2, 1), annotation(3, 1, "CV", "IM", "VO"),
        annotation(1, 2, "REL"), annotation(2, 2), annotation(3, 2, "HD", "EX"),
        annotation(4, 0, "HD"), annotation(4, 1),
    ]  # fmt: skip
    for blank in ("REL", "EX", "IM"):
        rows[4][blank] = ""  # as where an annotator wasn't asked
    table(tmp_path / "GabHateCorpus_annotations.tsv", rows, "\t")
    found = posts("ghc", tmp_path)
    assert labels(found) == [("1", 1, True), ("2", 0, False), ("3", 1, True), ("4", 0, False)]
    assert [post.fields["implicit"] for post in found] == [True, False, False, False]
    assert found[0].fields["targets"] == ["religion"]
    assert [post.fields["annotators"] for post in found] == [3, 3, 3, 2]


def test_ghc_split_files_have_their_own_columns(tmp_path: Path) -> None:
    rows = [
        {"text": f"post {cv}{hd}", "hd": hd, "cv": cv, "vo": 1} for hd in (0, 1) for cv in (0, 1)
    ]
    table(tmp_path / "ghc_test.tsv", rows, "\t")
    found = posts("ghc", tmp_path, "test")
    assert labels(found) == [
        ("test-1", 0, False),
        ("test-2", 1, True),
        ("test-3", 1, True),
        ("test-4", 1, True),
    ]
    # As pandas writes a column in which a cell was empty.
    floats = [{**row, "hd": f"{row['hd']}.0", "cv": f"{row['cv']}.0", "vo": "1.0"} for row in rows]
    table(tmp_path / "ghc_train.tsv", floats, "\t")
    assert [post.gold for post in posts("ghc", tmp_path, "train")] == [post.gold for post in found]
    rows[1]["cv"] = 3
    table(tmp_path / "ghc_train.tsv", rows, "\t")
    with pytest.raises(
        BadInput, match=r"ghc_train\.tsv row 2: cv = '3': is not 1 \(yes\), 0 \(no\)"
    ):
        posts("ghc", tmp_path, "train")
