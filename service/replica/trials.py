"""Trials that go on where an earlier attempt left off, and wait for a person where one has to decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt
from pydantic import Field

from tribunal.cases.following import notes_of_run
from tribunal.cases.session import POST, as_given, hear, record
from tribunal.cases.threads import Looked, Threads
from tribunal.context import Context, context_from
from tribunal.errors import BadInput
from tribunal.nodes.court.review import check_answer
from tribunal.nodes.state import Case
from tribunal.prompts.policy import kept_policy
from tribunal.schema import JSON, Frozen, Record
from tribunal.service.replica.appealed import policy_before
from tribunal.service.replica.caseload import Caseload, Held
from tribunal.service.replica.checkpoints import Checkpoints
from tribunal.store.engine import Store

_UNKEPT = "this case can't wait for a person to review it, because it is not to be kept"


class Question(Frozen):
    """What a person is asked."""

    id: str = Field(description="another one after each trial")
    request: JSON = Field(description="what they are shown, in the shape of LangGraph's Agent Inbox")
    form: JSON = Field(description="the JSON schema of an answer in that shape; it names the policy's categories")


class Heard(Frozen):
    """How a trial came to rest: its record so far, what a person is asked, and whether it has left checkpoints."""

    record: Record
    question: Question | None = None
    written: bool = False


class Trials:
    """The trials of one replica.

    Args:
        store: where checkpoints lie.
        caseload: by which it is known whose a case is.
    """

    def __init__(self, store: Store, caseload: Caseload) -> None:
        self._store, self._caseload = store, caseload
        self._checkpoints = Checkpoints(store, caseload)
        self._threads = Threads(self._checkpoints, "async")

    async def hear(self, held: Held, listen: Callable[[JSON], None] | None) -> Heard:
        """Try a case until it is decided or waits for a person.

        Raises:
            BadInput: the post or a setting is wrong; no model was called.
            TakenOver: another replica has the case now.
        """
        context, post = context_from(held.settings), held.post or {}
        if problem := post.get("problem"):  # of a row of a batch
            raise BadInput(problem)
        if not held.keep:
            reviewed = context.review
            context = context.model_copy(update={"review": False, "review_rule": []}) if reviewed else context
            made = await hear(**_named(post), graph=held.graph, context=context, listen=listen, config=_config_of(held))
            warned = (*made.warnings, _UNKEPT) if reviewed else made.warnings
            return Heard(record=made.model_copy(update={"warnings": warned}))
        first = await policy_before(self._store, held.appeal_id) if held.appeal_id else None
        with kept_policy(context.policy, first):  # a new trial has the policy of the first one
            async with self._checkpoints.of(held) as trial:
                heard = await self._heard(held, context, listen)
        return heard.model_copy(update={"written": held.attempt > 1 or trial.written})

    async def look(self, row: JSON) -> Looked:
        """How far a case is that lies in the store, and its state, by its checkpoints."""
        return await self._threads.look(row["id"], row["graph"], context_from(row["settings"]))

    async def check(self, row: JSON, answer: JSON) -> None:
        """See that a person's answer fits the case that they have before them, which nobody tries now.

        Args:
            row: the case, as it lies in the store.
            answer: in the shape of the Agent Inbox.

        Raises:
            BadInput: it doesn't: the field, the value, and what it may be.
        """
        looked = await self.look(row)
        await check_answer(cast("Case", looked.state), answer)

    async def _heard(self, held: Held, context: Context, listen: Callable[[JSON], None] | None) -> Heard:
        post = await as_given(**_named(held.post or {}))  # its image lies on this machine from here on
        given: JSON | Command[Any] | None = None
        looked = Looked("unbegun", {})
        if held.attempt > 1:
            looked = await self._threads.look(held.id, held.graph, context)
            if looked.standing == "unbegun":
                await self._caseload.unsay(held)
        if looked.standing == "unbegun":
            given = post
        elif looked.question is not None and held.answer and held.answer["question"] == looked.question.id:
            given = Command(resume=held.answer["answer"])
        state, waits = looked.state, looked.standing == "waiting"
        if given is not None or looked.standing == "under_way":
            if isinstance(given, Command):  # of an answer that a replica was killed over, a half may be there
                await self._checkpoints.unanswer(held)
            state, waits = await self._threads.run(held.id, held.graph, context, given, listen, _config_of(held))
        if not waits:
            thread = held.id if state.get("review") else ""
            return Heard(record=record(state | {"thread": thread, "waits": None}, held.graph, context))
        looked = await self._threads.look(held.id, held.graph, context)
        asked = _question(looked.question, looked.state["waits"])
        return Heard(record=record(looked.state | notes_of_run(state), held.graph, context), question=asked)


def _config_of(held: Held) -> RunnableConfig:
    """Return the config of a case's run: by its case, and its batch, a trace of it is found."""
    metadata = {"case": held.id, "run": held.batch_id}
    return {"metadata": {name: value for name, value in metadata.items() if value}}


def _named(post: JSON) -> JSON:
    return {name: value for name, value in post.items() if name in POST and value is not None}


def _question(asked: Interrupt | None, request: JSON) -> Question | None:
    form: Any = asked.response_schema if asked else None
    return Question(id=asked.id, request=request, form=form or {}) if asked else None
