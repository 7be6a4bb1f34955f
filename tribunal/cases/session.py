"""One post through one graph, to its record."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tribunal.cases.graph_run import caller_config, judge_unreviewed, unkept_warning
from tribunal.cases.records import graph_input
from tribunal.context import Context, settings_for_record
from tribunal.schema import JSON, Record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from langchain_core.runnables import RunnableConfig

    from tribunal.cases.keep_options import KeepOptions
    from tribunal.events import Listener


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

    Raises:
        BadInput: the post, a setting or the address of the database to keep it in is wrong; no model was called. A
            database that is away or damaged is a warning: nobody will be asked, or the verdict isn't kept.
    """
    config = caller_config(config)
    post = await graph_input(text, image, post_id, language, earlier, appeal)
    if keep is None:
        return await _judge(post, graph, context, listen, config, database, author)
    from tribunal.cases.record_rows import check_database, keep_record  # SQLAlchemy, for those who keep
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
        from tribunal.cases.author_history import hash_author  # SQLAlchemy, for those who ask for it
        from tribunal.cases.docket import docket_here
        from tribunal.store.problems import DatabaseUnreachable
        from tribunal.store.table_versions import DatabaseDamaged

        try:
            docket = await docket_here(database)
            author_sha = await hash_author(docket.store, author)
            return await docket.judge(post, graph, context, listen, config, author_sha)
        except (DatabaseDamaged, DatabaseUnreachable) as error:
            unkept = unkept_warning(str(error), review=True)
    return await judge_unreviewed(post, graph, context, listen, config, unkept)


async def stream_post(text: str | None = None, image: str | None = None, **given: Any) -> AsyncGenerator[JSON | Record]:
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
    from tribunal.cases.docket import docket_here

    docket = await docket_here(database)
    return await docket.decide(thread, answer, listen, caller_config(config))


async def resume_case(thread: str, *, keep: KeepOptions | None = None, database: str | None = None) -> Record:
    """Go on with a case of the docket whose process ended in the middle of its trial, and keep what became of it.

    Raises:
        BadInput: there is no such case, or it isn't in the middle of anything.
    """
    from tribunal.cases.docket import docket_here
    from tribunal.cases.record_rows import keep_record

    docket = await docket_here(database)
    row = await docket.row(thread)
    record = await docket.resume(thread)
    return record if keep is None else await keep_record(keep, record, row["post"] or {}, row["settings"])
