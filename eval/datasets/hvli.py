"""H-VLI, the set of the ARCADE paper (section 3): posts whose text and image change each other's meaning."""

from __future__ import annotations

from collections.abc import Iterator

from tribunal.eval.datasets.dataset import Dataset, DatasetSpec, PaperProtocol
from tribunal.eval.datasets.sample import Gold, Sample
from tribunal.prompts.policy import policy
from tribunal.retrievers.perspectives.rows import TableRow

# By SMI pattern, the digits (text, image, combined): paper, section 3.1.
DIFFICULTY = {
    "000": "Easy", "011": "Easy", "101": "Easy", "111": "Easy", "100": "Normal", "010": "Normal", "001": "Hard",
    "110": "Hard",
}  # fmt: skip


def _read(dataset: Dataset) -> Iterator[Sample]:
    names = [category.name for category in policy("h-vli").fine]
    for row in dataset.keyed_rows(dataset.files[0]):
        text, image, final = (_label(row, column, names) for column in ("text_label", "image_label", "final_label"))
        pattern = "".join(str(int(label > 0)) for label in (text, image, final))
        yield Sample(
            id=str(row.number),
            text=row.text("tweet_text"),
            image=row.text("image_path") or None,
            language="en",
            gold=Gold(
                label=final,
                scheme="fine",
                positive=final > 0,
                name=row.optional("final_label_str") or names[final],
            ),
            fields={
                "smi_pattern": pattern,
                "difficulty": DIFFICULTY[pattern],
                "text_label": text,
                "image_label": image,
                "split": dataset.split,
            },
        )


def _label(row: TableRow, column: str, names: list[str]) -> int:
    value = row.text(column)
    if value not in {str(number) for number in range(len(names))}:
        raise row.wrong(column, value, f"a category, 0 to {len(names) - 1}")
    return int(value)


H_VLI = DatasetSpec(
    name="h-vli",
    title="H-VLI: Hate via Vision-Language Interplay",
    task="hate",
    obtain="https://github.com/Sayur1n/H-VLI",
    licence="CC BY 4.0; its images come under the terms of MMHS150K and Hateful Memes as well",
    splits={"train": (("train_set.json",),), "test": (("test_set.json",),)},
    default="test",
    read=_read,
    images="imgs",
    protocol=PaperProtocol(
        says="ARCADE, section 5.2: all 1,178 posts of the test split",
        split="test",
        quotas={"posts": 1178},
        stratum=lambda _: "posts",
        whole=True,
        table="arcade-table3",
    ),
)
