"""Every set of the papers in its own form and in the paper's size, with harmless posts of our own making."""

from __future__ import annotations

import json
from pathlib import Path

from tests.eval.datasets.published import table, written

GHC = ("Hate", "HD", "CV", "VO", "REL", "RAE", "SXO", "GEN", "IDL", "NAT", "POL", "MPH", "EX", "IM")
UNSMILE = (
    "여성/가족",
    "남성",
    "성소수자",
    "인종/국적",
    "연령",
    "지역",
    "종교",
    "기타 혐오",
    "악플/욕설",
)


def write_all(folder: Path) -> Path:
    """Each set in a folder that is called as it is."""
    _arcade(folder)
    _antihate(folder)
    _predict(folder)
    _mv_debate(folder)
    return folder


def _arcade(folder: Path) -> None:
    post = {"tweet_text": "word", "image_path": "", "text_label": 0, "image_label": 0}
    written(
        folder / "h-vli/test_set.json",
        {str(n): {**post, "final_label": n % 6} for n in range(1178)},
    )
    _lines(
        folder / "fhm/dev.jsonl",
        [{"id": f"{n:05}", "text": f"word-{n}.", "img": "", "label": n % 2} for n in range(500)],
    )


def _antihate(folder: Path) -> None:
    """SBIC: every third post is outside the pool. GHC: every second hate post is explicit."""
    for split in ("trn", "dev", "tst"):
        rows = [
            {
                "whoTarget": float(n % 3 == 2), "offensiveYN": float(n % 2), "post": f"{split} {n}",
                "targetMinority": "[]", "targetCategory": "[]",
            }
            for n in range(1200)
        ]  # fmt: skip
        table(folder / f"sbic/SBIC.v2.agg.{split}.csv", rows)
    kinds: list[tuple[str, ...]] = [("HD", "IM"), ("HD", "EX"), (), ()]
    table(
        folder / "ghc/GabHateCorpus_annotations.tsv",
        [
            {"ID": n, "Annotator": 0, "Text": f"post {n}"}
            | {name: int(name in kinds[n % 4]) for name in GHC}
            for n in range(1100)
        ],
        "\t",
    )
    table(
        folder / "4chan/4chan.csv",
        [
            {
                "id": n, "text": f"post {n}", "label": "hate" if n < 704 else "nonhate",
                "type": ("implicit" if n < 78 else "explicit") if n < 704 else "",
            }
            for n in range(2000)
        ],
    )  # fmt: skip


def _predict(folder: Path) -> None:
    numbers = range(500)
    labels = ("normal", "offensive")
    _lines(
        folder / "k-haters/test.jsonl",
        [{"text": f"글 {n}", "label": labels[n % 2]} for n in numbers],
    )
    (folder / "k-mhas").mkdir()
    rows = "".join(f"글 {n}\t{8 if n % 2 else 2}\n" for n in numbers)
    (folder / "k-mhas/kmhas_test.txt").write_text(f"document\tlabel\n{rows}", encoding="utf-8")
    written(
        folder / "kold/kold_v1.json",
        [
            {"guid": str(n), "comment": f"글 {n}", "OFF": n % 2 == 1, "TGT": None, "GRP": None}
            for n in numbers
        ],
    )
    table(
        folder / "kodoli/kodoli.csv",
        [
            {"index": n, "sentences": f"글 {n}", "offensiveness": "OFFEN" if n % 2 else "NOT"}
            for n in numbers
        ],
    )
    table(
        folder / "unsmile/unsmile_valid_v1.0.tsv",
        [{"문장": f"글 {n}", **dict.fromkeys(UNSMILE, n % 2), "clean": 1 - n % 2} for n in numbers],
        "\t",
    )


def _mv_debate(folder: Path) -> None:
    written(
        folder / "mmsd/text_json_clean/test.json",
        [{"image_id": n, "text": "so sunny", "label": n % 2} for n in range(600)],
    )
    (folder / "mmsd/dataset_image").mkdir()
    for number in range(600):
        (folder / f"mmsd/dataset_image/{number}.jpg").write_bytes(b"x")
    for label in ("fake", "real"):
        rows = [{"id": f"{label}-{n}", "news_url": "", "title": f"title {n}"} for n in range(300)]
        table(folder / f"gossipcop/gossipcop_{label}.csv", rows)


def _lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
