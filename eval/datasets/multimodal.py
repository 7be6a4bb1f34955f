"""MMSD for sarcasm and GossipCop for misinformation, of the MV-Debate paper (Experiments, Setup)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset, DatasetSpec, PaperProtocol
from tribunal.eval.datasets.sample import Sample, binary
from tribunal.parsed import from_json
from tribunal.retrievers.perspectives.rows import as_text
from tribunal.schema import JSON
from tribunal.text import wellformed

# ---------------------------------------------------------------------------------------------------------------- MMSD


def _mmsd(dataset: Dataset) -> Iterator[Sample]:
    seen: set[str] = set()
    for row in dataset.rows():
        sarcastic, name = row.yes_or_no("label", yes=("1",), no=("0",)), row.text("image_id")
        if sarcastic is None or name in seen:
            dataset.skip("no label" if sarcastic is None else "an id that was there before")
            continue
        seen.add(name)
        yield Sample(
            id=name,
            text=row.text("text"),
            image=f"dataset_image/{name}.jpg",
            language="en",
            gold=binary(sarcastic, "sarcastic" if sarcastic else "not sarcastic"),
            fields={"split": dataset.split},
        )


def _five_hundred(split: str) -> PaperProtocol:
    return PaperProtocol(
        says="MV-Debate, Setup: 500 at random, seed 42; which 500 the paper drew isn't published",
        split=split,
        quotas={"posts": 500},
        stratum=lambda _: "posts",
        seed=42,
        table="mv-debate-table1",
    )


_SPLITS = ("train", "valid", "test")

MMSD = DatasetSpec(
    name="mmsd",
    title="MMSD, and MMSD2.0, its corrected version",
    task="sarcasm",
    obtain="https://github.com/JoeYing1019/MMSD2.0",
    licence="see its repository",
    splits={
        **{split: ((f"text_json_clean/{split}.json",),) for split in _SPLITS},
        **{f"{split}-2.0": ((f"text_json_final/{split}.json",),) for split in _SPLITS},
    },
    default="test",
    read=_mmsd,
    images="dataset_image",
    protocol=_five_hundred("test"),
)

# ----------------------------------------------------------------------------------------------------------- GossipCop

_ARTICLE = "news content.json"


def _gossipcop(dataset: Dataset) -> Iterator[Sample]:
    seen: set[str] = set()
    for file in dataset.files[:2]:
        fake = file.stem.endswith("_fake")
        articles = file.parent / "gossipcop" / ("fake" if fake else "real")
        for row in dataset.rows(file):
            name = row.text("id")
            if name in seen:
                dataset.skip("an id that was there before")
                continue
            seen.add(name)
            if PurePath(name).parts != (name,) or name == "..":
                raise row.wrong("id", name, "the name of a folder")
            article = _article(articles / name / _ARTICLE)
            title, body = row.text("title"), _string(article, "text")
            yield Sample(
                id=name,
                text="\n\n".join(part for part in (title, body) if part),
                language="en",
                gold=binary(fake, "fake" if fake else "real"),
                fields={
                    "url": row.text("news_url") or None,
                    "image_url": _string(article, "top_img") or None,
                    "article": bool(body),
                },
            )


def _article(file: Path) -> JSON:
    """What FakeNewsNet's crawler kept of a story; nothing where it was not crawled."""
    try:
        held = from_json(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"file {file}: not an article of FakeNewsNet: {error}") from error
    return held if isinstance(held, dict) else {}


def _string(article: JSON, field: str) -> str:
    return wellformed(as_text(article.get(field)))


GOSSIPCOP = DatasetSpec(
    name="gossipcop",
    title="GossipCop (FakeNewsNet)",
    task="misinformation",
    obtain="https://github.com/KaiDMML/FakeNewsNet",
    licence="see its repository; its articles belong to their publishers",
    splits={
        "all": (
            ("gossipcop_fake.csv", "dataset/gossipcop_fake.csv"),
            ("gossipcop_real.csv", "dataset/gossipcop_real.csv"),
        )
    },
    default="all",
    read=_gossipcop,
    beside=f"gossipcop/*/*/{_ARTICLE}",
    protocol=_five_hundred("all"),
)
