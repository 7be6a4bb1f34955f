"""Hateful Memes (FHM) and MMHS150K: posts of an image and a text, hateful or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset, DatasetSpec, PaperProtocol
from tribunal.eval.datasets.sample import Sample, binary
from tribunal.retrievers.perspectives.rows import TableRow

CATEGORIES = ("NotHate", "Racist", "Sexist", "Homophobe", "Religion", "OtherHate")


def _fhm(dataset: Dataset) -> Iterator[Sample]:
    for row in dataset.rows():
        # The challenge's test files were first published without the column.
        hateful = row.yes_or_no("label", yes=("1",), no=("0",)) if "label" in row.cells else None
        if hateful is None:
            dataset.skip("no label")
            continue
        yield Sample(
            id=row.text("id"),
            text=row.text("text"),
            image=row.text("img") or None,
            language="en",
            gold=binary(hateful, "hateful" if hateful else "not hateful"),
            fields={"split": dataset.split},
        )


def _mmhs(dataset: Dataset) -> Iterator[Sample]:
    posts = dataset.keyed_rows(dataset.files[0])
    wanted = _ids(dataset.files[1]) if len(dataset.files) > 1 else None
    for row in posts:
        if wanted is not None and row.number not in wanted:
            continue
        votes = _votes(row)
        if not votes:
            dataset.skip("no label")
            continue
        common, count = Counter(votes).most_common(1)[0]
        hateful = 2 * sum(vote > 0 for vote in votes) > len(votes)
        yield Sample(
            id=str(row.number),
            text=row.text("tweet_text"),
            image=f"img_resized/{row.number}.jpg",
            language="en",
            gold=binary(hateful, "hate" if hateful else "not hate"),
            fields={
                "votes": [CATEGORIES[vote] for vote in votes],
                "category": CATEGORIES[common] if 2 * count > len(votes) else None,
                "split": dataset.split,
            },
        )


def _votes(row: TableRow) -> list[int]:
    votes = row["labels"]
    if not isinstance(votes, list) or not all(vote in range(len(CATEGORIES)) for vote in votes):
        raise row.wrong("labels", votes, f"a list of categories, 0 to {len(CATEGORIES) - 1}")
    return [int(vote) for vote in votes]


def _ids(file: Path) -> set[str]:
    try:
        return set(file.read_text("utf-8").split())
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"file {file}: {error}") from error


FHM = DatasetSpec(
    name="fhm",
    title="Hateful Memes (FHM)",
    task="hate",
    obtain="https://hatefulmemeschallenge.com (the files of the challenge; also on Kaggle)",
    licence="Meta's licence of the Hateful Memes data, for research",
    splits={
        "train": (("train.jsonl",),),
        "dev": (("dev.jsonl", "dev_seen.jsonl"),),
        "dev-unseen": (("dev_unseen.jsonl",),),
        "test": (("test.jsonl", "test_seen.jsonl"),),
        "test-unseen": (("test_unseen.jsonl",),),
    },
    default="dev",
    read=_fhm,
    images="img",
    protocol=PaperProtocol(
        says="ARCADE, section 5.2: all 500 posts of the dev split",
        split="dev",
        quotas={"posts": 500},
        stratum=lambda _: "posts",
        whole=True,
        table="arcade-table4",
    ),
)

_GROUND_TRUTH = ("MMHS150K_GT.json",)

MMHS150K = DatasetSpec(
    name="mmhs150k",
    title="MMHS150K",
    task="hate",
    obtain="https://gombru.github.io/2019/10/09/MMHS/",
    licence="see its page",
    splits={
        "train": (_GROUND_TRUTH, ("splits/train_ids.txt",)),
        "val": (_GROUND_TRUTH, ("splits/val_ids.txt",)),
        "test": (_GROUND_TRUTH, ("splits/test_ids.txt",)),
        "all": (_GROUND_TRUTH,),
    },
    default="test",
    read=_mmhs,
    images="img_resized",
)
