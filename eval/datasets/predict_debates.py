"""Read the debates that PREDICT's published script records: one JSON file a post, with both sides' memories.

The script (`main_dict.py`) writes `0.json`, `1.json`, … into `output/Dataset_A/DICT`: the text, its `ground_truth`, the
two references, what each player remembers, and the fields of the judge's answer. Each has its prompts beside it, in
`0-config.json`, which aren't read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tribunal.core.text import parse_json, wellformed
from tribunal.errors import BadInput
from tribunal.eval.datasets.dataset import Dataset
from tribunal.process.files import read_regular
from tribunal.runner.results import Sample, binary_label
from tribunal.schema import JSON, Stance

FILES = "*[0-9].json"
# The split whose labels are those that the recorded judge gave; in the other they are the sample's own.
RECORDED = "recorded"
_PLAYERS: dict[Stance, str] = {"not_hate": "Non Hate side", "hate": "Hate side"}
_REFERENCES: dict[Stance, str] = {"not_hate": "Not_Hate_Reason", "hate": "Hate_Reason"}
_HATE = ("혐오", "hate", "hate speech", "hateful", "offensive")
_NOT_HATE = (
    "비혐오",
    "non hate",
    "not hate",
    "not hate speech",
    "non hateful",
    "not hateful",
    "not offensive",
)
_NOTHING = ("", "nan", "none")  # what pandas makes of an empty cell


@dataclass(frozen=True)
class RecordedDebate:
    """Hold one recorded debate.

    `openings` and `responses` are what each side said in rounds 1 and 2, `references` the reasons that it began with;
    empty where it had none. `label` and `reason` are the judge's answer as it stands there; None where the script
    couldn't read it. `about_own_text` is False where the two sides were given another post's text.
    """

    post_id: str
    text: str
    ground_truth: str
    references: dict[Stance, str]
    openings: dict[Stance, str]
    responses: dict[Stance, str]
    label: str | None
    reason: str
    about_own_text: bool


def read_debate(file: Path) -> RecordedDebate:
    """Read one recorded debate.

    Raises:
        BadInput: the file can't be read, or isn't of this form; with its name, and what was sought there.
    """
    try:
        held = parse_json(read_regular(file))
        told = {name.casefold(): value for name, value in held.items()}
        spoken = {
            side: _words_by_role(held["players"][player]) for side, player in _PLAYERS.items()
        }
        return RecordedDebate(
            post_id=file.stem,
            text=_as_text(held["text"]),
            ground_truth=_as_text(held["ground_truth"]),
            references={side: _as_text(held[name]) for side, name in _REFERENCES.items()},
            # Between the two stands the argument again, as the side was reminded of it.
            openings={side: words["assistant"][0] for side, words in spoken.items()},
            responses={side: words["assistant"][-1] for side, words in spoken.items()},
            label=_as_text(told["label"]) or None
            if held.get("success") and "label" in told
            else None,
            reason=_as_text(told.get("reason")),
            about_own_text=all(
                _as_text(held["text"]) in words["system"][0] for words in spoken.values()
            ),
        )
    except (OSError, ValueError) as error:
        raise BadInput(f"data set predict-debates: {file}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise BadInput(
            f"data set predict-debates: {file}: is no debate that PREDICT's script recorded: {error} was sought"
        ) from error


def _words_by_role(memory: list[JSON]) -> dict[str, list[str]]:
    """Return what stands in a player's memory, by the role of each message."""
    found: dict[str, list[str]] = {"system": [], "assistant": []}
    for message in memory:
        found.setdefault(message["role"], []).append(_as_text(message["content"]))
    return found


def _as_text(value: object) -> str:
    text = wellformed(str(value)).strip()
    return "" if text.casefold() in _NOTHING else text


def fold_label(words: str) -> bool | None:
    """Return whether a label of the recording says hate, or None if it is neither of the two."""
    said = " ".join(words.casefold().replace("-", " ").split())
    return True if said in _HATE else False if said in _NOT_HATE else None


def read_predict_debates(dataset: Dataset) -> Iterator[Sample]:
    """Yield the posts of the recorded debates, with the label of the sample or that of the recorded judge."""
    for file in dataset.files:
        held = read_debate(file)
        words = held.label if dataset.split == RECORDED else held.ground_truth
        if words is None:
            dataset.skip("no recorded verdict")
            continue
        hate = fold_label(words)
        if hate is None:
            raise BadInput(
                f"data set predict-debates: {file}: label {words!r}: says neither hate nor non-hate"
            )
        yield Sample(
            id=held.post_id,
            text=held.text,
            language="ko",
            gold=binary_label(hate, "hate" if hate else "non-hate"),
            fields={
                "recorded": held.label,
                "about_own_text": held.about_own_text,
                "split": dataset.split,
            },
        )
