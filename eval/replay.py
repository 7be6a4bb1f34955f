"""Serve PREDICT's recorded debates as a model's answers, so that our judge and counting are held to their verdicts.

The model is named `tribunal.eval.replay:PREDICT:FOLDER`. It answers the graph `predict` over the data set
`predict-debates`, with the two perspectives of `SIDE_BY_PERSPECTIVE` (docs/experiments.md has the commands).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.eval.datasets.predict_debates import RecordedDebate
from tribunal.models.providers import Endpoint, Provider
from tribunal.models.role import Question
from tribunal.schema import JSON, Stance

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# Which perspective gives the reference of which side; the recording has each side's reasons as one text.
SIDE_BY_PERSPECTIVE: dict[str, Stance] = {"example-newsroom": "not_hate", "example-harm": "hate"}
_REFUSAL = "I can't help with that."
_UNREADABLE = "The recording holds no answer of the judge that its script could read."
_AGREES = re.compile(r"\bagree\b|동의", re.IGNORECASE)
_DISAGREES = re.compile(
    r"(?:\bnot|\bcannot|n['’]t)\s+(?:\w+\s+)?agree\b|동의(?:하지|할\s*수\s*없|\s*못)", re.IGNORECASE
)


def make_recorded_model(endpoint: Endpoint) -> BaseChatModel:
    """Return a model that answers each part of `predict` with what was said in the recorded debate on the post.

    Raises:
        BadInput: the folder holds no recorded debate, or one isn't of the form.
    """
    from tribunal.eval.datasets.predict_debates import FILES, read_debate
    from tribunal.nodes.rehearsal.model import Rehearsal

    folder = Path(endpoint.model).expanduser()
    debates = {held.post_id: held for held in map(read_debate, sorted(folder.glob(FILES)))}
    if not debates:
        raise BadInput(
            f"model: {endpoint.name}: {folder} holds no recorded debate; give the folder of 0.json, 1.json, …"
        )

    # What plays each role, by the role's name.
    def debate_on(question: Question) -> RecordedDebate:
        held = debates.get(question.post.id)
        if held is None or held.text != question.post.text:
            raise ValueError(f"there is no recorded debate on the post {question.post.id}")
        return held

    def take_stance(question: Question) -> JSON | str:
        """Give the reference of a side; a side without one is left out, as a perspective that refuses is."""
        side = SIDE_BY_PERSPECTIVE.get(question.role.seat.removeprefix("perspective:"))
        if side is None:
            raise ValueError(
                f"{question.role.seat}: speaks for neither side; name {' and '.join(SIDE_BY_PERSPECTIVE)}"
            )
        reason = debate_on(question).references[side]
        names = question.form.model_json_schema()["properties"]["label"]["enum"]
        return (
            {"reason": reason, "label": names[0 if side == "hate" else 1]} if reason else _REFUSAL
        )

    def open_debate(side: Stance) -> Callable[[Question], JSON]:
        return lambda question: {"argument": debate_on(question).openings[side]}

    def respond(side: Stance) -> Callable[[Question], JSON]:
        def answer(question: Question) -> JSON:
            said = debate_on(question).responses[side]
            # The stance of a response, which the recording has in words alone.
            begin = said[:80]
            return {
                "argument": said,
                "stance": (
                    "agree" if _AGREES.search(begin) and not _DISAGREES.search(begin) else "rebut"
                ),
            }

        return answer

    def judge(question: Question) -> JSON | str:
        """Give the verdict in the words of the recording."""
        held = debate_on(question)
        return {"reason": held.reason, "label": held.label} if held.label else _UNREADABLE

    sides: tuple[Stance, ...] = ("not_hate", "hate")
    return Rehearsal(
        parts={
            "perspective": take_stance,
            **{f"debater.opening.{side}": open_debate(side) for side in sides},
            **{f"debater.response.{side}": respond(side) for side in sides},
            "judge.debate": judge,
        }
    )


PREDICT = Provider(name="recorded", make=make_recorded_model, sees_question=True)
