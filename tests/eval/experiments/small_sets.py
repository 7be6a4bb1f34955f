"""Every set of the papers in its own form, a few posts each, whose words say what a scripted model answers to them.

In a post `[[says=3]]` is the category that every decision of a debate is to be (0 is none), and `[[alone=0]]` that of a
single call; `[[cue=…]]` is where a court's prosecutor finds a cue: nowhere (`none`), at once (`direct`), or on the
second look (`implied`). In the Korean sets each perspective has a mark of its own. `[[declines=alone]]` is who refuses.
"""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from tests.eval.datasets.published import table, written
from tests.eval.protocols.sets import GHC, UNSMILE

FIVE = ("k-haters", "k-mhas", "kold", "kodoli", "unsmile")
POSTS = 8  # of a set; of H-VLI 12, and of GHC twice as many
H_VLI = 12
_CUES = ("implied", "direct", "none")
# The labels of text and image, and what that makes of a post, by the label of both together.
_PARTS = {
    0: (((0, 0), "Easy"), ((1, 0), "Normal"), ((1, 1), "Hard")),
    1: (((1, 1), "Easy"), ((0, 1), "Easy"), ((0, 0), "Hard")),
}


def gold(number: int) -> int:
    """Whether a post is hate, by its number in its set."""
    return number % 2


def says(number: int) -> int:
    """What a debate decides of it: every fifth post wrongly."""
    return gold(number) ^ (number % 5 == 3)


def alone(number: int) -> int:
    """What a single call decides of it: every third post wrongly."""
    return gold(number) ^ (number % 3 == 1)


def stance(number: int, perspective: str) -> int:
    """What a perspective says of it: of five, as many are wrong as the post's number is beyond a multiple of five."""
    return gold(number) ^ (FIVE.index(perspective) < number % 5)


def category(number: int) -> int:
    """The gold category of a post of H-VLI."""
    return gold(number) * (1 + number // 2 % 3)


def difficulty(number: int) -> str:
    """How hard a post of H-VLI is."""
    return _PARTS[gold(number)][number // 2 % 3][1]


def marked(dataset: str, number: int, *more: str) -> str:
    """A post's words, which no other set has."""
    marks = {"says": says(number), "alone": alone(number), "cue": _CUES[number % 3]}
    marks |= {name.replace("-", "_"): stance(number, name) for name in FIVE}
    return " ".join(
        [
            f"{dataset}-word-{number}",
            *(f"[[{name}={value}]]" for name, value in marks.items()),
            *more,
        ]
    )


def write_small(folder: Path) -> Path:
    """Each set in a folder that is called as it is."""
    _arcade(folder)
    _antihate(folder)
    _predict(folder)
    _mv_debate(folder)
    return folder


def write_perspectives(data: Path) -> None:
    """The five perspectives, in the data folder, each with a few texts of its own."""
    for name in FIVE:
        path = data / "perspectives" / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = "\n".join(
            f"{kind} = {json.dumps([f'{kind} text {n} of {name}' for n in range(4)])}"
            for kind in ("hate", "not_hate")
        )
        path.write_text(
            f'name = "{name}"\ntitle = "{name}"\nlanguage = "ko"\ncriterion = "criterion-of-{name}."\n'
            f'[labels]\nhate = "Hate"\nnot_hate = "Fine"\n[texts]\n{texts}\n',
            encoding="utf-8",
        )


def _arcade(folder: Path) -> None:
    rows = {}
    for n in range(H_VLI):
        label, declines = category(n), ["[[declines=alone]]"] if n == 5 else []
        (text, image), _ = _PARTS[gold(n)][n // 2 % 3]
        rows[str(n)] = {
            "tweet_text": marked("h-vli", n, f"[[fine={label if says(n) == gold(n) else says(n)}]]", *declines),
            "image_path": "", "text_label": text, "image_label": image, "final_label": label,
        }  # fmt: skip
    written(folder / "h-vli/test_set.json", rows)
    _lines(
        folder / "fhm/dev.jsonl",
        [
            {"id": f"{n:05}", "text": marked("fhm", n), "img": "", "label": gold(n)}
            for n in range(POSTS)
        ],
    )


def _antihate(folder: Path) -> None:
    for split in ("trn", "dev", "tst"):
        rows = [
            {
                "whoTarget": float(split != "trn"), "offensiveYN": float(gold(n)), "post": marked("sbic", n),
                "targetMinority": "[]", "targetCategory": "[]",
            }
            for n in range(POSTS)
        ]  # fmt: skip
        table(folder / f"sbic/SBIC.v2.agg.{split}.csv", rows[: POSTS if split == "trn" else 1])
    table(
        folder / "ghc/GabHateCorpus_annotations.tsv",
        [
            {"ID": n, "Annotator": 0, "Text": marked("ghc", n)}
            | {name: int(gold(n) and name in ("HD", "IM")) for name in GHC}
            for n in range(POSTS)
        ],
        "\t",
    )
    table(
        folder / "4chan/4chan.csv",
        [
            {
                "id": n, "text": marked("4chan", n), "label": "hate" if gold(n) else "nonhate",
                "type": "implicit" if gold(n) else "",
            }
            for n in range(POSTS)
        ],
    )  # fmt: skip


def _predict(folder: Path) -> None:
    numbers = range(POSTS)
    _lines(
        folder / "k-haters/test.jsonl",
        [
            {"text": marked("k-haters", n), "label": "offensive" if gold(n) else "normal"}
            for n in numbers
        ],
    )
    (folder / "k-mhas").mkdir()
    rows = "".join(f"{marked('k-mhas', n)}\t{2 if gold(n) else 8}\n" for n in numbers)
    (folder / "k-mhas/kmhas_test.txt").write_text(f"document\tlabel\n{rows}", encoding="utf-8")
    written(
        folder / "kold/kold_v1.json",
        [
            {
                "guid": str(n),
                "comment": marked("kold", n),
                "OFF": bool(gold(n)),
                "TGT": None,
                "GRP": None,
            }
            for n in numbers
        ],
    )
    table(
        folder / "kodoli/kodoli.csv",
        [
            {
                "index": n,
                "sentences": marked("kodoli", n),
                "offensiveness": "OFFEN" if gold(n) else "NOT",
            }
            for n in numbers
        ],
    )
    table(
        folder / "unsmile/unsmile_valid_v1.0.tsv",
        [
            {"문장": marked("unsmile", n), **dict.fromkeys(UNSMILE, gold(n)), "clean": 1 - gold(n)}
            for n in numbers
        ],
        "\t",
    )


def _mv_debate(folder: Path) -> None:
    written(
        folder / "mmsd/text_json_clean/test.json",
        [{"image_id": n, "text": marked("mmsd", n), "label": gold(n)} for n in range(POSTS)],
    )
    (folder / "mmsd/dataset_image").mkdir()
    for n in range(POSTS):
        Image.new("RGB", (8, 8), (n * 30, 90, 120)).save(folder / f"mmsd/dataset_image/{n}.jpg")
    for label in ("fake", "real"):
        numbers = [n for n in range(POSTS) if gold(n) == (label == "fake")]
        rows = [
            {"id": f"{label}-{n}", "news_url": "", "title": marked("gossipcop", n)} for n in numbers
        ]
        table(folder / f"gossipcop/gossipcop_{label}.csv", rows)


def _lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
