"""One post through a graph to its record, as Python, the command line and an agent's tool ask for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import Unpack

from tribunal import trust
from tribunal.docket.graph_run import agent_config, check_configurable, judge_unreviewed
from tribunal.docket.keeping import keep_options, unkept_warning
from tribunal.docket.records import graph_input
from tribunal.docket.run_config import caller_config
from tribunal.errors import BadInput
from tribunal.graphs import graph as graph_named
from tribunal.process.loops import run_in_background
from tribunal.schema import JSON, Record, Task
from tribunal.settings.context import (
    Context,
    check_client,
    context_from,
    refuse_unused_settings,
    settings_for_record,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from tribunal.docket.keeping import KeepOptions
    from tribunal.events import Listener
    from tribunal.typed_names import SettingsKeywords


async def judge_post(
    text: str | None = None,
    image: str | None = None,
    *,
    graph: str,
    context: Context,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    appeal: JSON | None = None,
    listen: Listener | None = None,
    keep: KeepOptions | None = None,
    database: str | None = None,
    config: RunnableConfig | None = None,
    author: str | None = None,
    untrusted: bool = False,
) -> Record:
    """Decide a post.

    Args:
        text: its words.
        image: its image: a path or a data URI.
        graph: one of `graphs.GRAPHS`.
        context: the settings.
        post_id: what to call it; by default an id made from what it holds.
        language: such as `en`.
        earlier: earlier posts of its conversation, the oldest first; they are read, and not decided on.
        appeal: of a new trial: `reason` and `context`, which every seat but the gatekeeper reads.
        listen: is given every event as it happens: `asking`, `call`, `turn`, `outcome`.
        keep: how the verdict is kept; None: it isn't.
        database: where the case waits if a person has to decide it, unless `keep` says so; None: the one in force.
        config: the callbacks, tags and metadata of the run, as LangChain has them.
        author: the id of whoever posted it, of which a kept case has a keyed hash; nothing else is made of it.
        untrusted: whether the post and the settings come from a client.

    Raises:
        BadInput: the post, a setting or the address of the database to keep it in is wrong; no model was called. A
            database that is away or damaged is a warning: nobody will be asked, or the verdict isn't kept.
    """
    with trust.untrusted() if untrusted else nullcontext():
        check_client(context)
        check_configurable(config, context, graph)
        config = caller_config(config)
        post = await graph_input(text, image, post_id, language, earlier, appeal)
        if keep is None:
            return await _judge(post, graph, context, listen, config, database, author)
        return await _judge_and_keep(post, graph, context, listen, config, keep, author)


async def _judge_and_keep(
    post: JSON, graph: str, context: Context, listen: Listener | None, config: RunnableConfig, keep: KeepOptions,
    author: str | None,
) -> Record:  # fmt: skip
    # SQLAlchemy, for those who keep
    from tribunal.docket.record_rows import (
        check_database,
        keep_record,
    )
    from tribunal.store.table_versions import DatabaseDamaged

    with suppress(DatabaseDamaged):
        await check_database(keep)
    record = await _judge(post, graph, context, listen, config, keep.database, author)
    return await keep_record(keep, record, post, settings_for_record(context), author=author)


async def _judge(
    post: JSON, graph: str, context: Context, listen: Listener | None, config: RunnableConfig, database: str | None,
    author: str | None,
) -> Record:  # fmt: skip
    unkept = ""
    if context.review:
        # SQLAlchemy, for those who ask for it
        from tribunal.docket.decision_effects import hash_author
        from tribunal.docket.docket import docket_here
        from tribunal.store.table_versions import DatabaseDamaged, DatabaseUnreachable

        try:
            docket = await docket_here(database)
            author_sha = await hash_author(docket.store, author)
            return await docket.judge(post, graph, context, listen, config, author_sha)
        except (DatabaseDamaged, DatabaseUnreachable) as error:
            unkept = unkept_warning(str(error), review=True)
    return await judge_unreviewed(post, graph, context, listen, config, unkept)


async def stream_post(
    text: str | None = None, image: str | None = None, **given: Any
) -> AsyncGenerator[JSON | Record]:
    """Yield every event of a post's case as it happens, and at last its record. All else is as in `judge_post`."""
    events: asyncio.Queue[JSON | None] = asyncio.Queue()
    case = asyncio.create_task(judge_post(text, image, listen=events.put_nowait, **given))
    case.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield await case
    finally:
        if not case.done():
            case.cancel()
            await asyncio.wait([case])


async def submit_review(
    thread: str,
    answer: JSON,
    *,
    listen: Listener | None = None,
    database: str | None = None,
    config: RunnableConfig | None = None,
) -> Record:
    """Give a case that waits a reviewer's answer, and go on with it.

    An answer has the shape of the Agent Inbox: `{"type": "accept"}`, `{"type": "edit", "args": {"action": "decide",
    "args": {"category": …, "note": …}}}` or `{"type": "response", "args": question}`, and with each `reviewer`.

    Raises:
        BadInput: there is no such case, somebody else has decided it, or the answer is wrong; the case is as it was.
    """
    from tribunal.docket.docket import docket_here

    docket = await docket_here(database)
    return await docket.decide(thread, answer, listen, caller_config(config))


async def resume_case(
    thread: str, *, keep: KeepOptions | None = None, database: str | None = None
) -> Record:
    """Go on with a case of the docket whose process ended in the middle of its trial, and keep what became of it.

    Raises:
        BadInput: there is no such case, or it isn't in the middle of anything.
    """
    from tribunal.docket.docket import docket_here
    from tribunal.docket.record_rows import keep_record

    docket = await docket_here(database)
    row = await docket.row(thread)
    record = await docket.resume(thread)
    return (
        record
        if keep is None
        else await keep_record(keep, record, row["post"] or {}, row["settings"])
    )


_QUESTIONS: dict[Task, str] = {
    "hate": "is hate speech",
    "sarcasm": "is sarcastic",
    "misinformation": "is misinformation",
}
_DESCRIPTION = """Decides whether one social-media post {question}, and says why. \
Use it instead of deciding by yourself. Give the post itself, word for word, and no summary of it. \
It answers JSON: `outcome` is `verdict`, or `refusal` or `failure` where there is no decision, or `pending` while a \
person has to decide. {answer}`category` is the policy's, `explanation` says why, `cues` quote what in the post speaks \
for it, and `warnings` say what to keep in mind."""


class PostArguments(BaseModel):
    """What an agent gives: one post."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(default="", description="The words of the post, exactly as they were posted.")
    image: str | None = Field(
        default=None,
        description="The image of the post, where it has one: a web address (https://…) or a data URI. No file path.",
    )
    language: str | None = Field(
        default=None, description="The language of the post, such as en or ko, where it is known."
    )


def as_tool(
    *,
    graph: str = "tribunal",
    name: str = "judge_post",
    description: str | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[SettingsKeywords],
) -> StructuredTool:
    """Return the court as a tool for an agent, who gives it a post and gets a verdict with its reasons.

        agent = create_agent(model, [tribunal.as_tool(model="ollama:gemma3:4b", rounds=2)])

    The settings are fixed here; the agent gives the post alone, and can name no file of this machine as its image. A
    call of the tool is a run of its own: nothing of it lies in the agent's checkpoints, and its tokens aren't streamed
    as the agent's. The agent's callbacks, tags and metadata reach it, so that a trace of the agent shows every call.

    Args:
        graph: one of `graphs.GRAPHS`, an installed system by its name, or a pipeline of one's own as `file.py:graph` or
            `module:graph`.
        name: what the agent calls the tool.
        description: what the agent is told of it; by default what it decides, and what it answers.
        config: callbacks, tags and metadata of every call of the tool, beside the agent's own.
        settings: the fields of `Context`, as in `ajudge`.

    Returns:
        The tool. Its content is JSON in one line; its artifact is the whole record as JSON. A wrong post is answered
        with one line that says what to give.

    Raises:
        BadInput: there is no such graph, or a setting is wrong, or this graph doesn't heed it.
    """
    graph_named(graph)  # one of your own brings seats of its own, which may be set
    context = context_from({**settings})
    own = caller_config(config)
    check_configurable(config, context, graph)
    kept = keep_options("python", review=context.review)
    refuse_unused_settings(graph, context)

    async def decide(
        config: RunnableConfig,
        text: str = "",
        image: str | None = None,
        language: str | None = None,
    ) -> tuple[str, JSON]:
        run = merge_configs(own, agent_config(config))
        try:
            with _outside_agent_run():
                record = await judge_post(
                    text,
                    image,
                    graph=graph,
                    context=context,
                    language=language,
                    keep=kept,
                    config=run,
                )
        except BadInput as error:
            raise ToolException(str(error)) from error
        return tool_answer(record), record.dump()

    def decide_now(config: RunnableConfig, **post: Any) -> tuple[str, JSON]:
        return run_in_background(lambda: decide(config, **post))

    answer = "`hateful` is true or false, " if context.task == "hate" else ""
    return StructuredTool.from_function(
        func=decide_now,
        coroutine=decide,
        name=name,
        description=description
        or _DESCRIPTION.format(question=_QUESTIONS[context.task], answer=answer),
        args_schema=PostArguments,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_argument_error,
    )


def tool_answer(record: Record) -> str:
    """Return what an agent is told of a case: JSON in one line, with no more than it can use."""
    names = ("outcome", "hateful", "category", "explanation", "confidence", "warnings", "thread")
    said = {
        **{name: getattr(record, name) for name in names},
        "uncertain": record.uncertain or None,
        "cues": [
            cue.model_dump(include={"claim", "target_group", "type", "category"})
            for cue in record.cues
        ],
        "evidence": [each.model_dump(include={"id", "title", "url"}) for each in record.evidence],
    }
    kept = {
        name: value
        for name, value in said.items()
        if name == "explanation" or value not in (None, [], ())
    }
    return json.dumps(kept, ensure_ascii=False)


def _argument_error(error: Any) -> str:
    """Return what an agent is told of arguments that the tool doesn't take."""
    problem = (
        error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
    )
    field = ".".join(map(str, problem["loc"])) or "arguments"
    return f"{field}: {problem['msg']}; give {', '.join(PostArguments.model_fields)}"


@contextmanager
def _outside_agent_run() -> Iterator[None]:
    """Leave the run that the agent is in: its checkpointer, its thread and its streams are the agent's own."""
    token = var_child_runnable_config.set(None)
    try:
        with trust.for_an_agent():
            yield
    finally:
        var_child_runnable_config.reset(token)
