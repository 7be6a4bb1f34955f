"""Tribunal: decides whether a social-media post is hate speech, and shows why.

    import tribunal

    record = tribunal.judge("Welcome to the neighbourhood!")
    record.hateful, record.category, record.explanation

`judge` and `ajudge` decide one post; `trial` lets you watch; `explain` and `view_case` show why; `Context` holds the
settings; `untrusted` and `as_served` are for servers. The `tribunal` command does the same from a terminal. Names are
loaded when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from langchain_core.runnables import RunnableConfig
    from typing_extensions import Unpack

    from tribunal.docket.on_a_server import as_served
    from tribunal.docket.session import as_tool
    from tribunal.errors import BadInput, TribunalError
    from tribunal.explanations.case_drawing import draw_for_notebook, draw_page
    from tribunal.explanations.view_maker import view_case
    from tribunal.review.explain import aexplain, explain
    from tribunal.schema import Record
    from tribunal.settings.context import Context
    from tribunal.trust import untrusted
    from tribunal.typed_names import SettingsKeywords

__version__ = "0.2.0"
__all__ = [
    "BadInput", "Context", "Record", "TribunalError", "adecide", "aexplain", "ajudge", "as_served", "as_tool",
    "draw_for_notebook", "draw_page", "explain", "judge", "trial", "untrusted", "view_case",
]  # fmt: skip

_HOMES = {
    "BadInput": "tribunal.errors",
    "Context": "tribunal.settings.context",
    "Record": "tribunal.schema",
    "TribunalError": "tribunal.errors",
    "aexplain": "tribunal.review.explain",
    "as_served": "tribunal.docket.on_a_server",
    "as_tool": "tribunal.docket.session",
    "draw_for_notebook": "tribunal.explanations.case_drawing",
    "draw_page": "tribunal.explanations.case_drawing",
    "explain": "tribunal.review.explain",
    "untrusted": "tribunal.trust",
    "view_case": "tribunal.explanations.view_maker",
}
DEFAULT_GRAPH = "tribunal"
Given = ParamSpec("Given")
Result = TypeVar("Result")

# In a checkout without symbolic links, as Git makes one on Windows, the rooms lie in the folder above.
if not Path(__path__[0], "graphs").is_dir():
    __path__.append(str(Path(__path__[0]).parent))


async def ajudge(
    text: str | None = None,
    *,
    image: str | None = None,
    graph: str = DEFAULT_GRAPH,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    author: str | None = None,
    keep: bool | None = None,
    keep_text: bool | None = None,
    config: RunnableConfig | None = None,
    untrusted: bool = False,
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
        author: your id of whoever posted it; a kept case has a keyed hash of it, and no more.
        keep: whether the verdict is kept in the service's database (docs/records.md); None: as TRIBUNAL_KEEP says, else
            with `review` alone.
        keep_text: whether its words are kept too.
        config: callbacks, tags, metadata, run_name and run_id of the run, as LangChain has them (docs/studio.md).
        untrusted: whether the post and the settings come from a client, who may not set everything (docs/security.md).
        settings: the fields of `Context`: model, aux_model, judge_model, seats, rounds, web, perspectives, review, …

    Returns:
        Its record; `kept` is the case that it is kept as. A refusal or a failure is an outcome too, and raises nothing.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    from tribunal.docket.session import judge_post

    options = _case_options(graph, keep, keep_text, settings)
    post: Any = {"post_id": post_id, "language": language, "earlier": earlier, "author": author}
    return await judge_post(text, image, config=config, untrusted=untrusted, **post, **options)


def _case_options(
    graph: str = DEFAULT_GRAPH,
    keep: bool | None = None,
    keep_text: bool | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    from tribunal.docket.keeping import keep_options
    from tribunal.graphs import load_seats
    from tribunal.settings.context import context_from

    load_seats(graph, settings)
    context = context_from(settings)
    return {
        "graph": graph,
        "context": context,
        "keep": keep_options("python", keep, keep_text, review=context.review),
    }


def with_arguments_of(
    model: Callable[Given, Any],
) -> Callable[[Callable[..., Result]], Callable[Given, Result]]:
    """Return what declares that a function takes the arguments of another, for editors and type checkers."""

    def declare(function: Callable[..., Result]) -> Callable[Given, Result]:
        vars(function)["__wrapped__"] = model
        return function

    return declare


async def adecide(
    thread: str, answer: dict[str, Any], *, config: RunnableConfig | None = None
) -> Record:
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
    from tribunal.docket.session import submit_review

    return await submit_review(thread, answer, config=config)


@with_arguments_of(ajudge)
def judge(text: str | None = None, **given: Any) -> Record:
    """Decide one post and wait for it; arguments, result and errors are those of `ajudge`.

    Raises:
        RuntimeError: an event loop runs already, as in a notebook; await `ajudge` there.
    """
    from tribunal.process.model_objects import run_to_end

    return run_to_end(ajudge, text, **given)


@with_arguments_of(ajudge)
async def trial(text: str | None = None, **given: Any) -> AsyncGenerator[dict[str, Any] | Record]:
    """Decide one post, and watch it being decided. Arguments and errors are those of `ajudge`.

        async for event in tribunal.trial("Welcome to the neighbourhood!"):
            match event:
                case tribunal.Record():
                    print(event.category)
                case {"event": "turn"}:
                    print(event["seat"], event["text"])

    Leaving the loop early ends the case: nothing more is asked of a model.

    Yields:
        Every event as it happens, as plain JSON; its `event` says what it is: `asking`, `call`, `turn`, `opinion`, …
        (docs/events.md; `tribunal.events.event_of` reads one, with its types). At last the record, as of `ajudge`.
    """
    from tribunal.docket.session import stream_post

    of_case = ("image", "post_id", "language", "earlier", "author", "config", "untrusted")
    post = {name: given.pop(name) for name in of_case if name in given}
    options = {name: given.pop(name) for name in ("graph", "keep", "keep_text") if name in given}
    async with aclosing(
        stream_post(text, **post, **_case_options(**options, settings=given))
    ) as case:
        async for event in case:
            yield event


def main() -> None:
    """Run the `tribunal` command."""
    import gc
    import sys

    gc.set_threshold(100_000, 20, 20)  # most of what a command makes are modules, which stay
    # so that `module:object` in a setting finds the working folder, behind all that is installed
    sys.path.append("")
    from tribunal.commands import app
    from tribunal.commands.trust import read_dotenv_and_ask
    from tribunal.process.terminal import degrade_output, print_uncaught_error
    from tribunal.settings.environment import export_trusted_dotenv

    degrade_output()
    sys.excepthook = print_uncaught_error
    export_trusted_dotenv(read_dotenv_and_ask())
    app()


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tribunal' has no attribute {name!r}")
