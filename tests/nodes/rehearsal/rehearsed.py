"""What the tests of the rehearsal model share: posts, one question asked, a whole case, turns of a debate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tribunal.graphs import graph
from tribunal.models.role import Question, Role
from tribunal.nodes.arcade.cues import quote_transcript
from tribunal.nodes.arcade.judge import JUDGE
from tribunal.nodes.rehearsal.model import answer_question
from tribunal.prompts.marks import material_text
from tribunal.prompts.policy import Policy, load_policy
from tribunal.schema import JSON, Argument, Cue, Image, Post, Scheme, Turn
from tribunal.settings.context import Context

H_VLI = load_policy("h-vli")

DIRECT = "Immigrants are vermin, get out of our country!"
IMPLIED = "Immigrants: the weeds in our garden."
FAINT = "Women always complain."
HARMLESS = "What a lovely day at the lake."


def asked(
    role: Role[Any],
    text: str,
    *,
    in_force: Policy = H_VLI,
    scheme: Scheme = "fine",
    image: Image | None = None,
    mend: Callable[[Any, list[str]], Any] | None = None,
    shared: str = "",
    **material: Any,
) -> JSON:
    """What the rehearsal answers, once the form that the role asks for has taken it."""
    form = role.form(in_force, scheme)
    question = Question(
        role=role,
        form=form,
        system="",
        post=Post(id="p", text=text, image=image),
        material={name: material_text(value) for name, value in material.items()},
        policy=in_force,
        scheme=scheme,
        check=None,
        mend=mend,
        repeat=0,
        draw=0,
        shared=shared,
    )
    said = answer_question(question)
    fitted: JSON = form.model_validate(said).model_dump()
    return fitted


async def decided(text: str, name: str = "arcade", **context: Any) -> JSON:
    """A case through a real graph; every call has to be answered at the first try."""
    ruling: JSON = await graph(name).ainvoke(
        {"text": text}, context=Context(model="rehearsal:court", **context)
    )
    assert all(call["attempts"] == 1 and call["error"] is None for call in ruling["calls"])
    assert ruling["outcome"]["outcome"] == "verdict"
    return ruling


def cue(
    claim: str = "“Immigrants: the weeds”", type: Any = "Metaphor", cue_id: str = "C1", **other: str
) -> Cue:
    values = {
        "target_group": "Immigrants", "characteristic": "immigration status", "category": "OtherHate",
        "justification": "why", **other,
    }  # fmt: skip
    return Cue(id=cue_id, type=type, claim=claim, **values)


def argument(
    stance: Any, words: str = "because", claim: str = "“Immigrants: the weeds”", cue_id: str = "C1"
) -> Argument:
    return Argument(
        cue_id=cue_id, target_group="Immigrants", claim=claim, stance=stance, argument=words
    )


def charge(*cues: Cue, stage: Any = "investigation") -> Turn:
    return Turn(id="prosecutor/1", seat="prosecutor", stage=stage, round=1, cues=cues)


def prosecution(round: int, *arguments: Argument) -> Turn:
    return Turn(
        id=f"prosecutor/{round}",
        seat="prosecutor",
        stage="argument",
        round=round,
        arguments=arguments,
    )


def defence(round: int, *arguments: Argument) -> Turn:
    return Turn(
        id=f"defender/{round}", seat="defender", stage="rebuttal", round=round, arguments=arguments
    )


def judged(*turns: Turn, text: str = IMPLIED, **other: Any) -> str:
    """The category that the judge finds after these turns."""
    return str(asked(JUDGE, text, transcript=quote_transcript(turns), **other)["category"])
