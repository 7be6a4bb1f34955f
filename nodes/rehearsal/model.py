"""The rehearsal model: every role played by written rules, offline, the same way every time.

It looks for simple words of attack in a post and for what the debate holds, and answers in the form asked for.
It knows nothing of the world and is no moderator; `docs/rehearsal.md` gives its rules, and must change with them.

The post and the debate are kept apart: attacks and excuses are read from the post alone, what has been said from the
role's material alone. A post that imitates a transcript is a post.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from tribunal.core.schema_filling import fill_schema
from tribunal.models.role import Question
from tribunal.nodes.rehearsal import court, debates
from tribunal.nodes.rehearsal.reading import decide_alone, take_exam
from tribunal.prompts.sets import shipped_prompts
from tribunal.schema import JSON

# A part answers in the form asked for, or in words where the role takes words.
Part = Callable[[Question], JSON | str]
# By a role's name, what plays it.
PARTS: dict[str, Part] = {
    "gatekeeper": court.scan_post,
    "prosecutor.indictment": court.indict_post,
    "prosecutor.investigation": court.investigate_post,
    "prosecutor.argument": court.prosecute_cues,
    "defender": court.defend_post,
    "judge": court.judge_debate,
    "triage": decide_alone,
    "classifier": decide_alone,
    "exam": take_exam,
    "explainer": court.explain_decision,
    "perspective": debates.label_post,
    "annotator": debates.annotate_post,
    "debater.opening.not_hate": debates.open_debate,
    "debater.opening.hate": debates.open_debate,
    "debater.response.not_hate": debates.answer_debate,
    "debater.response.hate": debates.answer_debate,
    "judge.debate": debates.judge_panel,
    "researcher.queries": debates.plan_queries,
    "researcher.urls": debates.plan_urls,
    "researcher.relevance": debates.choose_hits,
    "researcher.passages": debates.choose_passages,
    "researcher.weigh": debates.weigh_evidence,
    "researcher.enough": debates.check_sufficiency,
    "judge.evidence": debates.conclude_research,
    "classifier.words": debates.answer_in_words,
    "view.answer": debates.answer_as_view,
    "view.revision": debates.revise_answer,
    "judge.scores": debates.score_answers,
    "reflection": debates.reflect_on_answers,
    "summary": debates.summarise_debate,
    "agent": debates.answer_as_equal,
    "classifier.task": debates.answer_task,
}
# What it says for a part that it has no rules for.
NO_RULES = (
    "(rehearsal: no rules are written for this part, so this answer says nothing of the post)"
)
_WORD = re.compile(r"\s*\S+|\s+")


class Rehearsal(BaseChatModel):
    """A chat model that plays every role by the rules of this package.

    It is asked like any other, with one thing more: the keyword `question`, a function that returns the
    `Question` behind the messages. Tokens are estimated at four characters each.

    Attributes:
        parts: what plays a role, by its name.

    Raises (when asked):
        ValueError: there is no `question`.
    """

    parts: Mapping[str, Part] = Field(default=PARTS, exclude=True, repr=False)
    profile: ModelProfile | None = Field(
        default=ModelProfile(
            text_inputs=True, image_inputs=False, temperature=True, structured_output=True
        ),
        exclude=True,
    )

    @property
    def _llm_type(self) -> str:
        return "rehearsal"

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        get_question: Callable[[], Question] | None = kwargs.get("question")
        reply = answer_question(get_question() if get_question else None, self.parts)
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        # Four characters a token, rounded up.
        tokens_in, tokens_out = (
            -(-length // 4) for length in (sum(len(each.text) for each in messages), len(text))
        )
        usage = UsageMetadata(
            input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
        )
        about = {"finish_reason": "stop", "model_name": "court"}
        message = AIMessage(text, usage_metadata=usage, response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        # a fraction of a millisecond: a thread would cost more
        return self._generate(messages, **kwargs)

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        """Yield the answer word by word, for those who listen."""
        whole = cast("AIMessage", self._generate(messages, **kwargs).generations[0].message)
        for word in _WORD.findall(whole.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        about: Any = {
            "usage_metadata": whole.usage_metadata,
            "response_metadata": whole.response_metadata,
        }
        yield ChatGenerationChunk(
            message=AIMessageChunk(content="", chunk_position="last", **about)
        )


def answer_question(question: Question | None, parts: Mapping[str, Part] = PARTS) -> JSON | str:
    """Return the answer to one question, in the form that its role asks for.

    A role with a prompt of the user's own has no rules, whatever its seat is called. Its form is filled in with the
    first value that each field offers, and with words that say so.

    Raises:
        ValueError: there is no question.
    """
    if question is None:
        raise ValueError(
            "the rehearsal model is asked through `ask`, which hands it the question itself"
        )
    part = (
        parts.get(question.role.name) if question.role.prompt in shipped_prompts().sources else None
    )
    if part:
        answer = part(question)
        if not isinstance(answer, str):
            answer = court.cite_clauses(question, answer)
        if isinstance(answer, str) or "confidence" not in question.form.model_fields:
            return answer
        # to fill the field: no verdict of the rules states one
        return {
            "confidence": 0.0,
            **answer,
        }
    return cast("JSON", fill_schema(question.form.model_json_schema(), lambda: NO_RULES))
