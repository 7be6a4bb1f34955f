"""Tribunal: decides whether a social-media post is hate speech, and shows why.

    import tribunal

    record = tribunal.judge("Welcome to the neighbourhood!")
    record.hateful, record.category, record.explanation

`judge` and `ajudge` decide one post; `trial` lets you watch; `explain` shows why; `Context` holds the settings; the
`tribunal` command does the same from a terminal. Names are loaded when they are first used.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from langchain_core.runnables import RunnableConfig
    from typing_extensions import Unpack

    from tribunal.cases.tool import as_tool
    from tribunal.context import Context
    from tribunal.errors import BadInput, TribunalError
    from tribunal.explained.asked import aexplain, explain
    from tribunal.schema import Record
    from tribunal.settings_keywords import SettingsKeywords

__version__ = "0.1.0"
__all__ = [
    "BadInput", "Context", "Record", "TribunalError", "adecide", "aexplain", "ajudge", "as_tool", "explain", "judge",
    "trial",
]  # fmt: skip

_HOMES = {
    "BadInput": "tribunal.errors",
    "Context": "tribunal.context",
    "Record": "tribunal.schema",
    "TribunalError": "tribunal.errors",
    "aexplain": "tribunal.explained.asked",
    "as_tool": "tribunal.cases.tool",
    "explain": "tribunal.explained.asked",
}
DEFAULT_GRAPH = "tribunal"


async def ajudge(
    text: str | None = None,
    *,
    image: str | None = None,
    graph: str = DEFAULT_GRAPH,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    keep: bool | None = None,
    keep_text: bool | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[SettingsKeywords],
) -> Record:
    """Decide one post.

    Args:
        text: its words.
        image: its image: a path or a data URI.
        graph: one of `graphs.GRAPHS`, an installed system by its name, or a pipeline of one's own as `file.py:graph` or
            `module:graph`.
        post_id: what to call it; by default an id made from what it holds.
        language: such as `en`.
        earlier: earlier posts of its conversation, the oldest first; they are read, and not decided on.
        keep: whether the verdict is kept in the service's database (docs/records.md); None: as TRIBUNAL_KEEP says, else
            with `review` alone.
        keep_text: whether its words are kept too.
        config: callbacks, tags, metadata, run_name and run_id of the run, as LangChain has them (docs/tracing.md).
        settings: the fields of `Context`: model, aux_model, judge_model, seats, rounds, web, perspectives, review, …

    Returns:
        Its record; `kept` is the case that it is kept as. A refusal or a failure is an outcome too, and raises nothing.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    from tribunal.cases.session import hear
    from tribunal.context import context_from
    from tribunal.graphs import load_seats
    from tribunal.kept.wanted import wanted

    load_seats(graph, settings)
    context = context_from({**settings})
    kept = wanted("python", keep, keep_text, review=context.review)
    return await hear(
        text,
        image,
        graph=graph,
        context=context,
        post_id=post_id,
        language=language,
        earlier=earlier,
        keep=kept,
        config=config,
    )


async def adecide(thread: str, answer: dict[str, Any], *, config: RunnableConfig | None = None) -> Record:
    """Give a case that waits for a person their answer (`review=True`; docs/review.md).

    Args:
        thread: the case's, from its record.
        answer: such as `{"type": "accept", "reviewer": "kim"}`.
        config: of one more trial, as of `ajudge`.

    Returns:
        Its record: decided, or pending again after one more trial.

    Raises:
        BadInput: there is no such case, somebody else has decided it, or the answer is wrong; the case is as it was.
    """
    from tribunal.cases.session import decide
    from tribunal.kept.wanted import wanted

    return await decide(thread, answer, keep=wanted("python", review=True), config=config)


def judge(
    text: str | None = None,
    *,
    image: str | None = None,
    graph: str = DEFAULT_GRAPH,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    keep: bool | None = None,
    keep_text: bool | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[SettingsKeywords],
) -> Record:
    """Decide one post and wait for it; arguments, result and errors are those of `ajudge`.

    Raises:
        RuntimeError: an event loop runs already, as in a notebook; await `ajudge` there.
    """
    import asyncio

    from tribunal.model_objects import run_to_end

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        decided = ajudge(
            text,
            image=image,
            graph=graph,
            post_id=post_id,
            language=language,
            earlier=earlier,
            keep=keep,
            keep_text=keep_text,
            config=config,
            **settings,
        )
        return run_to_end(decided, settings)
    raise RuntimeError(
        "tribunal.judge() can't wait where an event loop runs, as in a notebook; write: await tribunal.ajudge(…)"
    )


async def trial(
    text: str | None = None,
    *,
    image: str | None = None,
    graph: str = DEFAULT_GRAPH,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    keep: bool | None = None,
    keep_text: bool | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[SettingsKeywords],
) -> AsyncGenerator[dict[str, Any] | Record]:
    """Decide one post, and watch it being decided.

        async for event in tribunal.trial("Welcome to the neighbourhood!"):
            match event:
                case tribunal.Record():
                    print(event.category)
                case {"event": "turn"}:
                    print(event["seat"], event["text"])

    Leaving the loop early ends the case: nothing more is asked of a model.

    Args:
        text: as of `ajudge`, and so are the others.

    Yields:
        Every event as it happens, as plain JSON; its `event` says what it is: `asking`, `call`, `turn`, `opinion`, …
        (docs/events.md; `tribunal.events.event_of` reads one, with its types). At last the record, as of `ajudge`.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    from tribunal.cases.session import attend
    from tribunal.context import context_from
    from tribunal.graphs import load_seats
    from tribunal.kept.wanted import wanted

    load_seats(graph, settings)
    context = context_from({**settings})
    kept = wanted("python", keep, keep_text, review=context.review)
    case = attend(
        text,
        image,
        graph=graph,
        context=context,
        post_id=post_id,
        language=language,
        earlier=earlier,
        keep=kept,
        config=config,
    )
    async with aclosing(case):
        async for event in case:
            yield event


def main() -> None:
    """The `tribunal` command."""
    import gc
    import sys

    # Most of what a command makes are modules, which stay. The collector looks at them at every 20,000 new objects,
    # and not at every 700, which would take a sixth of the time to a first verdict.
    gc.set_threshold(20_000, 20, 20)

    sys.path.append("")  # so that `module:object` in a setting finds the working folder, behind all that is installed
    from tribunal.commands import app
    from tribunal.environment import export_langsmith
    from tribunal.terminal import degrade, fell

    degrade()
    sys.excepthook = fell
    export_langsmith()
    app()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tribunal' has no attribute {name!r}")
