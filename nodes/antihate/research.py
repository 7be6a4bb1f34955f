"""The start of research, and one call of a researcher: archived, or replayed from the archive."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from tribunal.errors import BadInput, ModelError
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.models.saved_calls import gather_calls, save_result
from tribunal.models.stops import is_stepped_through
from tribunal.nodes.agents import node, router
from tribunal.nodes.forms import Mend
from tribunal.nodes.state import ResearchState, post_of
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of, settings_for_record

if TYPE_CHECKING:
    from tribunal.retrievers.web.library import Library


async def library_of_case(state: ResearchState) -> Library:
    """Return the library in which this case looks things up."""
    # what fetches and reads pages, for those who research
    from tribunal.retrievers.web.library import open_library

    return await open_library(context_of(state), post_of(state))


async def ask_archived(
    role: Role[Any],
    state: ResearchState,
    runtime: Runtime[Context],
    phase: str,
    key: str,
    check: Callable[[Any], None] | None = None,
    mend: Mend[Any] | None = None,
    **material: Any,
) -> Answer[Any]:
    """Ask as `ask` does, and archive the answer; in a replay, take it from the archive.

    Args:
        role: who is asked.
        state: the case.
        runtime: that of the run.
        phase: the step of the research, by which the archive knows the answer, with `key`.
        key: which call of that step it is.
        check: as for `ask`.
        mend: as for `ask`.
        **material: the material that the role is shown, as for `ask`, and whether it is told details.

    Raises:
        BadInput: the archived answer is no answer to this call.
    """
    library = await library_of_case(state)
    policy = await policy_of(state)
    archived = await library.archived_reply(phase, key)
    if archived is not None:
        try:
            return Answer(
                role.form(policy, "binary").model_validate(archived), {"calls": [], "warnings": []}
            )
        except ValueError as error:
            raise BadInput(
                f"search: the archived answer to {phase} {key!r} can't be used: {error}"
            ) from error
    details = context_of(state).mode != "no-details"
    given = await ask(role, state, runtime, check=check, mend=mend, details=details, **material)

    async def archive_reply() -> JSON:
        await library.add_reply(
            state["run"], phase, key, given.value.model_dump(), given.log["calls"]
        )
        return {}

    # A node that stops before its next question runs again from its head: then the reply is archived already.
    await (
        save_result(runtime, archive_reply)
        if is_stepped_through(state, runtime)
        else archive_reply()
    )
    return given


async def gather_answers(
    calls: Iterable[Awaitable[Answer[Any]]], *, in_turn: bool
) -> list[Answer[Any]]:
    """Return the answers to calls made at the same time, or one after the other (`gather_calls`).

    If some fail, the first fault is raised, with all calls made.
    """
    results = await gather_calls(calls, in_turn=in_turn)
    faults = [each for each in results if isinstance(each, BaseException)]
    if not faults:
        return cast("list[Answer[Any]]", results)
    first = next((each for each in faults if isinstance(each, ModelError)), faults[0])
    if isinstance(first, ModelError):
        done = [each for each in results if isinstance(each, Answer)]
        also = [
            call
            for each in faults
            if isinstance(each, ModelError) and each is not first
            for call in each.calls
        ]
        first.calls = [*merge_logs(done)["calls"], *also, *first.calls]
    raise first


def merge_logs(answers: Sequence[Answer[Any]]) -> JSON:
    """Return what several answers add to the state, as one log."""
    return {
        "calls": [call for given in answers for call in given.log["calls"]],
        "warnings": [warning for given in answers for warning in given.log["warnings"]],
    }


@node
async def begin_research(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Open the search and the archive, before any call, and clear the state of an earlier post.

    Raises:
        BadInput: the search or the archive is none.
    """
    context = context_of(state)
    post = post_of(state)
    if not post.text.strip():
        raise BadInput(
            "text: the post has none, and research begins with its words; give one, or choose another graph"
        )
    library = await library_of_case(state)
    run = await library.begin_run(post, settings_for_record(context))
    return {
        "scheme": "binary",
        "run": run,
        "turn": 0,
        "started": time.time(),
        "queries": [],
        "tried": Overwrite([]),
        "hits": [],
        "pending": [],
        "crawl": None,
        "read_pages": [],
        "page": None,
        "pages": Overwrite([]),
        "plans": Overwrite([]),
        "judgements": Overwrite([]),
        "exhausted": False,
        "sufficient": None,
        "missing": "",
        "warnings": library.warnings_for_run(run),
    }


@router
async def to_research(
    state: ResearchState,
) -> Literal["with knowledge", "mode no-knowledge", "mode zero-shot"]:
    """Research with knowledge, without any, or not at all."""
    match context_of(state).mode:
        case "no-knowledge":
            return "mode no-knowledge"
        case "zero-shot":
            return "mode zero-shot"
    return "with knowledge"


def seconds_left(state: ResearchState, context: Context) -> float:
    """Return the seconds of research that are left; the last twentieth of one is as good as none.

    In a case that a person steps through they are all left: the clock doesn't count how long the person looks.
    """
    if context.stops:
        return context.max_seconds
    return max(0.0, float(state.get("started", 0.0)) + context.max_seconds - time.time() - 0.05)
