"""An agent of one's own with the court as its tool. Put a real model in the place of the stand-in."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

import tribunal

court = tribunal.as_tool(rounds=2)


class AsksTheCourt(BaseChatModel):
    """In the place of a model that calls tools: it puts what it is told before the court, and says the answer."""

    @property
    def _llm_type(self) -> str:
        return "asks-the-court"

    def bind_tools(self, tools: Sequence[Any], **settings: Any) -> "AsksTheCourt":
        """Return the model itself, whatever tools there are."""
        return self

    def _generate(self, messages: list[BaseMessage], *given: Any, **settings: Any) -> ChatResult:
        last = messages[-1]
        call = {"type": "tool_call", "id": "1", "name": court.name, "args": {"text": last.text}}
        answer = (
            AIMessage(last.text)
            if isinstance(last, ToolMessage)
            else AIMessage("", tool_calls=[call])
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


graph = create_agent(AsksTheCourt(), [court], name="moderator")
