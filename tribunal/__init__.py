"""Tribunal: decides whether a social-media post is hate speech, and shows why.

    import tribunal

    record = tribunal.judge("Welcome to the neighbourhood!")
    record.hateful, record.category, record.explanation

`judge` and `ajudge` decide one post; `Context` holds the settings; the `tribunal` command does the same from a
terminal. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tribunal.context import Context
    from tribunal.errors import BadInput, TribunalError
    from tribunal.schema import Record

__version__ = "0.1.0"
__all__ = ["BadInput", "Context", "Record", "TribunalError", "adecide", "ajudge", "judge"]

_HOMES = {
    "BadInput": "tribunal.errors",
    "Context": "tribunal.context",
    "Record": "tribunal.schema",
    "TribunalError": "tribunal.errors",
}
DEFAULT_GRAPH = "tribunal"


async def ajudge(
    text: str | None = None,
    *,
    image: str | None = None,
    graph: str = DEFAULT_GRAPH,
    post_id: str | None = None,
    language: str | None = None,
    **settings: Any,
) -> Record:
    """Decide one post.

    Args:
        text: its words.
        image: its image: a path or a data URI.
        graph: one of `graphs.GRAPHS`, or a pipeline of one's own as `file.py:graph`.
        post_id: what to call it; by default an id made from what it holds.
        language: such as `en`.
        settings: the fields of `Context`: model, aux_model, judge_model, seats, rounds, web, perspectives, review, …

    Returns:
        Its record. A refusal or a failure is an outcome too, and raises nothing.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    from tribunal.cases.session import hear
    from tribunal.context import context_from

    context = context_from(settings)
    return await hear(text, image, graph=graph, context=context, post_id=post_id, language=language)


async def adecide(thread: str, answer: dict[str, Any]) -> Record:
    """Give a case that waits for a person their answer (`review=True`; docs/review.md).

    Args:
        thread: the case's, from its record.
        answer: such as `{"type": "accept", "reviewer": "kim"}`.

    Returns:
        Its record: decided, or pending again after one more trial.

    Raises:
        BadInput: there is no such case, somebody else has decided it, or the answer is wrong; the case is as it was.
    """
    from tribunal.cases.session import decide

    return await decide(thread, answer)


def judge(text: str | None = None, **options: Any) -> Record:
    """Decide one post and wait for it; arguments, result and errors are those of `ajudge`.

    Raises:
        RuntimeError: an event loop runs already; await `ajudge` there.
    """
    import asyncio

    return asyncio.run(ajudge(text, **options))


def main() -> None:
    """The `tribunal` command."""
    import gc
    import sys

    # Most of what a command makes are modules, which stay: to look through them again and again for garbage is a sixth
    # of the time to a first verdict. A long run turns the collector on again (`cases.session.settle`).
    gc.disable()
    sys.path.append("")  # so that `module:object` in a setting finds the working folder, behind all that is installed
    from tribunal.commands import app

    app()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tribunal' has no attribute {name!r}")
