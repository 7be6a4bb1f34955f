"""Read the published answer formats of four families of guard models, and of OpenAI's moderation endpoint."""

from __future__ import annotations

import json
import re
from typing import Literal

from pydantic import BaseModel

_CODES = re.compile(r"S\d+")
_SCORE = re.compile(r"<score>\s*(yes|no)\s*</score>", re.IGNORECASE)
_CONFIDENCE = re.compile(r"<confidence>\s*(low|medium|high)\s*</confidence>", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_HATE = ("hate", "hate/threatening")
_FORMAT = "the answer isn't in the format of this model: "


class GuardAnswer(BaseModel):
    """The answer of a guard model, as it was read.

    Attributes:
        answer: whether the post breaks the policy.
        named: the codes of categories, or the ids of rules, that it names.
        sure: how sure it says it is, in its own word; empty where it doesn't.
        reason: why, in its own words; empty where it gives no reason.
        confidence: how sure it is of its answer, from 0 to 1, where it gives scores.
    """

    answer: Literal["safe", "unsafe"]
    named: list[str] = []
    sure: str = ""
    reason: str = ""
    confidence: float | None = None


def read_llama_guard(said: str) -> GuardAnswer:
    """Read `safe`, or `unsafe` with a second line of codes, as Llama Guard 1 to 4 answer.

    Raises:
        ValueError: it is neither.
    """
    first, _, rest = said.strip().partition("\n")
    if first.strip() == "safe" and not rest.strip():
        return GuardAnswer(answer="safe")
    codes = _CODES.findall(rest)
    if first.strip() != "unsafe" or not codes:
        raise ValueError(
            f"{_FORMAT}`safe`, or `unsafe` and the codes of categories in a second line"
        )
    return GuardAnswer(answer="unsafe", named=codes)


def read_shieldgemma(said: str) -> GuardAnswer:
    """Read an answer that starts with Yes or No, as ShieldGemma gives it; what follows is its reason.

    Raises:
        ValueError: it starts otherwise.
    """
    found = _YES_OR_NO.match(said)
    if not found:
        raise ValueError(f"{_FORMAT}it starts with Yes or No")
    return GuardAnswer(answer=_by_yes(found[1]), reason=said[found.end() :].strip(" .,:\n"))


def read_granite_guardian(said: str) -> GuardAnswer:
    """Read `<score> yes </score>` (Granite Guardian 3.3), or Yes or No with a confidence (3.0 to 3.2).

    Raises:
        ValueError: it is neither.
    """
    found = _SCORE.search(said) or _YES_OR_NO.match(said)
    if not found:
        raise ValueError(f"{_FORMAT}<score> yes </score>, or Yes or No")
    sure = _CONFIDENCE.search(said)
    return GuardAnswer(answer=_by_yes(found[1]), sure=sure[1].lower() if sure else "")


def read_gpt_oss_safeguard(said: str) -> GuardAnswer:
    """Read the JSON object that the system message asks for, or a bare 1 or 0, as gpt-oss-safeguard answers.

    Raises:
        ValueError: it is neither.
    """
    if said.strip() in ("0", "1"):
        return GuardAnswer(answer="unsafe" if said.strip() == "1" else "safe")
    try:
        given = json.loads(said[said.index("{") : said.rindex("}") + 1])
        violates = {0: False, 1: True}[given["violation"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{_FORMAT}a JSON object with violation 0 or 1") from error
    named = [
        str(each) for each in (given.get("policy_category"), *(given.get("rule_ids") or ())) if each
    ]
    return GuardAnswer(
        answer="unsafe" if violates else "safe",
        named=list(dict.fromkeys(named)),
        sure=str(given.get("confidence") or ""),
        reason=str(given.get("rationale") or ""),
    )


def read_moderation(said: str) -> GuardAnswer:
    """Read a result of OpenAI's moderation endpoint: unsafe if it flags `hate` or `hate/threatening`.

    Harassment, which needs no protected group, stands in the reason alone.

    Raises:
        ValueError: it lacks one of their scores.
    """
    try:
        given = json.loads(said)
        scores = {name: float(given["category_scores"][name]) for name in (*_HATE, "harassment")}
        named = [name for name in _HATE if given["categories"][name]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{_FORMAT}an object with categories and category_scores") from error
    highest = max(scores[name] for name in _HATE)
    return GuardAnswer(
        answer="unsafe" if named else "safe",
        named=named[::-1],  # the graver one decides
        reason=f"Scores: {', '.join(f'{name} {score:.3f}' for name, score in scores.items())}.",
        confidence=min(1.0, max(0.0, 2 * highest - 1 if named else 1 - 2 * highest)),
    )


def _by_yes(word: str) -> Literal["safe", "unsafe"]:
    return "unsafe" if word.lower() == "yes" else "safe"
