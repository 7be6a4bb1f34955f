"""The rehearsal model: every role played by written rules, offline, the same way every time.

It looks for simple words of attack in a post and for what the debate holds, and answers in the form asked for.
It knows nothing of the world and is no moderator; `docs/rehearsal.md` gives its rules, and must change with them.

The post and the debate are kept apart: attacks and excuses are read from the post alone, what has been said from the
role's material alone. A post that imitates a transcript is a post.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from tribunal.nodes.rehearsal.reading import read
from tribunal.schema import JSON
from tribunal.schema_filling import fill_schema

if TYPE_CHECKING:
    from tribunal.models.question import Question

# By the place of each part in this folder: its rules are read when it is first played.
PARTS = {
    "gatekeeper": "prosecutor:scan",
    "prosecutor.indictment": "prosecutor:indict",
    "prosecutor.investigation": "prosecutor:investigate",
    "prosecutor.argument": "prosecutor:prosecute",
    "defender": "defender:defend",
    "judge": "judge:judge",
    "triage": "judge:first_look",
    "classifier": "judge:classify",
    "perspective": "panel:label",
    "annotator": "panel:annotate",
    "debater.opening.not_hate": "panel:open_debate",
    "debater.opening.hate": "panel:open_debate",
    "debater.response.not_hate": "panel:answer_debate",
    "debater.response.hate": "panel:answer_debate",
    "judge.debate": "panel:judge_debate",
    "researcher.queries": "research:queries",
    "researcher.urls": "research:urls",
    "researcher.relevance": "research:relevance",
    "researcher.passages": "research:passages",
    "researcher.weigh": "research:weigh",
    "researcher.enough": "research:enough",
    "judge.evidence": "research:conclude",
    "view.answer": "views:answer",
    "view.revision": "views:revise",
    "judge.scores": "views:score",
    "reflection": "views:reflect",
    "summary": "views:summarise",
    "agent": "views:speak",
    "classifier.task": "views:classify",
    "explainer": "explainer:explain",
}
IN_WORDS = {"classifier.words": "research:in_words"}
# What it says for a part that it has no rules for.
NO_RULES = "(rehearsal: no rules are written for this part, so this answer says nothing of the post)"
CHARACTERS_PER_TOKEN = 4
_WORD = re.compile(r"\s*\S+|\s+")
LONG_POST = 4_000  # characters from which a post is read off the event loop


class Rehearsal(BaseChatModel):
    """A chat model that plays every role by the rules of this package.

    It is asked like any other, with one thing more: the keyword `question`, a function that returns the
    `Question` behind the messages. Tokens are estimated at four characters each.

    Raises (when asked):
        ValueError: there is no `question`.
    """

    profile: ModelProfile | None = Field(
        default=ModelProfile(text_inputs=True, image_inputs=False, temperature=True, structured_output=True),
        exclude=True,
    )

    @property
    def _llm_type(self) -> str:
        return "rehearsal"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        said = self.said(_question_in(kwargs))
        asked = sum(len(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=_message(said, asked))])

    def said(self, question: Question | None) -> str:
        """The answer to one question, as it is said: JSON, or words where the role takes words."""
        in_words = IN_WORDS.get(question.role.name) if question is not None else None
        if in_words and question is not None:
            return str(_at(in_words)(question))
        return json.dumps(answer(question), ensure_ascii=False)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question = _question_in(kwargs)
        if question is not None and len(question.post.text) > LONG_POST:
            await asyncio.to_thread(read, question.post.text, question.policy)  # the answers then find it in the cache
        # An ordinary post takes a fraction of a millisecond: a thread would cost more.
        return self._generate(messages, stop, **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        """The answer word by word, for those who listen."""
        [generation] = (await self._agenerate(messages, stop, **kwargs)).generations
        whole = cast("AIMessage", generation.message)
        for word in _WORD.findall(whole.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                usage_metadata=whole.usage_metadata,
                response_metadata=whole.response_metadata,
                chunk_position="last",
            )
        )


def _question_in(options: JSON) -> Question | None:
    ask: Callable[[], Question] | None = options.get("question")
    return ask() if ask else None


def answer(question: Question | None) -> JSON:
    """The answer to one question, in the form that its role asks for.

    No rules are written for a role of somebody's own. Its form is filled in with the first value that each field
    offers, and with words that say so.

    Raises:
        ValueError: there is no question.
    """
    if question is None:
        raise ValueError("the rehearsal model is asked through `ask`, which hands it the question itself")
    part = PARTS.get(question.role.name)
    if part is None:
        return cast("JSON", fill_schema(question.form.model_json_schema(), lambda: NO_RULES))
    return cast("JSON", _at(part)(question))


def _at(place: str) -> Any:
    file, _, name = place.partition(":")
    return getattr(import_module(f"tribunal.nodes.rehearsal.{file}"), name)


def _message(said: str, asked: int) -> AIMessage:
    tokens_in, tokens_out = _tokens(asked), _tokens(len(said))
    usage = UsageMetadata(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
    return AIMessage(said, usage_metadata=usage, response_metadata={"finish_reason": "stop", "model_name": "court"})


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
