"""One post through one graph, to its record."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from tribunal.cases.following import follow
from tribunal.cases.protocol import protocol
from tribunal.cases.run_config import caller_config
from tribunal.cases.shape import readable_state
from tribunal.cases.unseen_calls import warn_of_unseen
from tribunal.context import Context, context_from, kept_settings
from tribunal.graphs import graph as graph_named
from tribunal.kept.wanted import Wanted
from tribunal.models.image import keep
from tribunal.nodes.exhibits import citations
from tribunal.rehearsed import rehearsed
from tribunal.schema import (
    JSON,
    Call,
    Cue,
    Evidence,
    Opinion,
    Precedent,
    Record,
    Review,
    Saving,
    Step,
    Trial,
    Turn,
    Usage,
    Vote,
)
from tribunal.shown import shown_in

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from langchain_core.runnables import RunnableConfig

    from tribunal.kept.keeping import Keeper
    from tribunal.telling import Listener

# What a post is given by, to `hear` and to a graph.
POST = ("text", "image", "post_id", "language", "earlier", "appeal")
_OF_THE_POST: tuple[Literal["text", "image"], ...] = ("text", "image")
DEBATED = ("rebuttal", "opening", "response", "answer")  # the stages that a round of debate is known by


async def hear(
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
    keep: Wanted | Keeper | None = None,
    config: RunnableConfig | None = None,
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
        keep: keeps the verdict; None: it isn't kept.
        config: the callbacks, tags and metadata of the run, as LangChain has them.

    Raises:
        BadInput: the post, a setting or the database to keep it in is wrong; no model was called.
    """
    config = caller_config(config)
    post = await as_given(text, image, post_id, language, earlier, appeal)
    if keep is None:
        return await _heard(post, graph, context, listen, config)
    keeper = _keeper(keep)
    await keeper.check()
    return await keeper.keep(await _heard(post, graph, context, listen, config), post, kept_settings(context))


def _keeper(keep: Wanted | Keeper) -> Keeper:
    from tribunal.kept.keeping import Keeper  # SQLAlchemy, for those who keep

    return Keeper(keep) if isinstance(keep, Wanted) else keep


async def _heard(post: JSON, graph: str, context: Context, listen: Listener | None, config: RunnableConfig) -> Record:
    if context.review:
        from tribunal.cases.docket import docket_here  # SQLite, for those who ask for it
        from tribunal.cases.docket_file import DocketUnwritable

        try:
            docket = await docket_here()
        except DocketUnwritable as error:
            unkept = f"this case could not be kept for a person to review ({error})"
            context = context.model_copy(update={"review": False, "review_rule": []})
            heard = await _heard(post, graph, context, listen, config)
            return heard.model_copy(update={"warnings": (*heard.warnings, unkept)})
        _, state = await docket.open_case(post, graph, context, listen, config)
        return record(state, graph, context)
    state = await follow(graph_named(graph), graph, post, None, listen, context=context, config=config)
    return record(state, graph, context)


async def as_given(
    text: str | None = None,
    image: str | None = None,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    appeal: JSON | None = None,
) -> JSON:
    """A post as a graph is given it. An image that comes with it is kept in a file, so that no checkpoint holds it.

    Raises:
        BadInput: the image is none.
    """
    if isinstance(image, str) and image.startswith("data:"):
        image = await asyncio.to_thread(keep, image)
    conversation = earlier if isinstance(earlier, str) else list(earlier)  # which `receive` refuses by name
    post: JSON = {
        "text": text or "", "image": image, "post_id": post_id, "language": language, "earlier": conversation,
    }  # fmt: skip
    return post if appeal is None else {**post, "appeal": appeal}


async def attend(
    text: str | None = None,
    image: str | None = None,
    *,
    graph: str,
    context: Context,
    post_id: str | None = None,
    language: str | None = None,
    earlier: Sequence[str] = (),
    keep: Wanted | None = None,
    config: RunnableConfig | None = None,
) -> AsyncGenerator[JSON | Record]:
    """As `hear`, for whoever watches: every event as it happens, and at last the record.

    Raises:
        BadInput: the post or a setting is wrong; no model was called.
    """
    events: asyncio.Queue[JSON | None] = asyncio.Queue()
    case = asyncio.create_task(
        hear(
            text,
            image,
            graph=graph,
            context=context,
            post_id=post_id,
            language=language,
            earlier=earlier,
            listen=events.put_nowait,
            keep=keep,
            config=config,
        )
    )
    case.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield await case
    finally:
        if not case.done():
            case.cancel()
            await asyncio.wait([case])


async def decide(
    thread: str,
    answer: JSON,
    *,
    listen: Listener | None = None,
    keep: Wanted | None = None,
    config: RunnableConfig | None = None,
) -> Record:
    """Give a case that waits a reviewer's answer, and go on with it.

    Args:
        thread: the case's, from its record.
        answer: in the shape of the Agent Inbox: `{"type": "accept"}`, `{"type": "edit", "args": {"action": "decide",
            "args": {"category": …, "note": …}}}` or `{"type": "response", "args": question}`, and with each `reviewer`.
        listen: is given every event of one more trial as it happens.
        keep: keeps what became of it; None: nothing is kept. Nor is it where the verdict before it wasn't.
        config: the callbacks, tags and metadata of one more trial, as LangChain has them.

    Raises:
        BadInput: there is no such case, somebody else has decided it, or the answer is wrong; the case is as it was.
    """
    from tribunal.cases.docket import docket_here

    docket = await docket_here()
    entry = await docket.entry(thread)
    decided = record(
        await docket.decide(thread, answer, listen, caller_config(config)), entry.graph, context_from(entry.settings)
    )
    return decided if keep is None else await _keeper(keep).keep_again(decided)


async def resume(thread: str, *, listen: Listener | None = None, keep: Wanted | None = None) -> Record:
    """Go on with a case of the docket whose process ended in the middle of its trial.

    Args:
        thread: the case's.
        listen: is given every event as it happens.
        keep: keeps what became of it; None: it isn't kept.

    Raises:
        BadInput: there is no such case, or it isn't in the middle of anything.
    """
    from tribunal.cases.docket import docket_here

    docket = await docket_here()
    entry = await docket.entry(thread)
    post = await docket.given(thread)
    ended = record(await docket.finish(thread, listen), entry.graph, context_from(entry.settings))
    return ended if keep is None else await _keeper(keep).keep(ended, post, entry.settings)


def record(state: JSON, graph: str, context: Context) -> Record:
    """Return the record of a case from the last state of its graph.

    A case whose outcome is none, or whose state nobody can read, is a failure that says so.

    Raises:
        WrongState: the state holds no post.
    """
    state = readable_state(state, graph, context)
    outcome, unseen = state["outcome"], state.get("unseen_calls") or 0
    review = state.get("review")
    if review and state.get("waits"):
        outcome = {"outcome": "pending", "explanation": f"a person has to decide this case: {review['reason']}"}
    turns = tuple(Turn.model_validate(turn) for turn in state.get("transcript") or [])
    kind, calls = outcome["outcome"], state.get("calls") or []
    told = shown_in(calls)
    edited = review is not None and review.get("action") == "edit"  # by a person, who was shown the policy
    return Record(
        outcome=kind,
        post_id=state["post"]["id"],
        graph=graph,
        task=context.task,
        scheme=state.get("scheme") or context.scheme,
        label=outcome.get("label"),
        category=outcome.get("category"),
        hateful=outcome.get("hateful"),
        explanation=outcome["explanation"],
        rehearsed=rehearsed(state.get("calls") or [], state.get("warnings") or []),
        track=state.get("track") or outcome.get("track"),
        rounds=max((turn.round for turn in turns if turn.stage in DEBATED), default=0),
        transcript=turns,
        cues=tuple(Cue.model_validate(cue) for cue in state.get("cues") or []),
        opinions=tuple(Opinion.model_validate(opinion) for opinion in state.get("opinions") or []),
        calls=tuple(Call.model_validate(call) for call in state.get("calls") or []),
        usage=Usage.of(state.get("calls") or []),
        shown=None if told is None else tuple(each for each in _OF_THE_POST if each in told),
        policy=state.get("policy") or {} if told is None or "policy" in told or edited else {},
        prompts=state.get("prompts") or {},
        protocol=protocol(state, graph),
        language=state["post"].get("language"),
        language_from=state["post"].get("language_from"),
        image_sha256=(state["post"].get("image") or {}).get("sha256"),
        unseen_calls=unseen,
        warnings=(*(state.get("warnings") or ()), *([warn_of_unseen(unseen)] if unseen else ())),
        tie=outcome.get("tie", False),
        confidence=outcome.get("confidence"),
        steps=tuple(Step.model_validate(step) for step in outcome.get("steps") or []),
        evidence=tuple(Evidence.model_validate(each) for each in state.get("evidence") or []),
        precedents=_precedents(state, outcome),
        research=_research(state),
        fault=_fault(outcome) if kind in ("refusal", "failure") else None,
        uncertain=outcome.get("uncertain", False),
        votes=tuple(Vote.model_validate(vote) for vote in outcome.get("votes") or []),
        saved=_saved(state),
        first_look=outcome.get("first_look") or state.get("first_look"),
        review=Review.model_validate(review) if review else None,
        trials=tuple(Trial.model_validate(trial) for trial in state.get("trials") or []),
        thread=state.get("thread") or None,
        debate=tuple(state.get("debate") or []),
    )


def _saved(state: JSON) -> tuple[Saving, ...]:
    """What shortcuts spared this post, the providers' prompt caches among them."""
    served = sum(call["cached_tokens"] for call in state.get("calls") or [] if not call["cached"])
    how = "prompt tokens that the provider had in its cache"
    kept = [Saving(id="prompt_cache", tokens=served, how=how)] if served else []
    return (*(Saving.model_validate(each) for each in state.get("saved") or []), *kept)


def _precedents(state: JSON, outcome: JSON) -> tuple[Precedent, ...]:
    """The decided cases that the court was shown, each with who cited it: turns by their ids, and the judge."""
    brought = [Precedent.model_validate(each) for each in state.get("precedents") or []]
    if not brought:
        return ()
    said = {turn["id"]: json.dumps(turn, ensure_ascii=False) for turn in state.get("transcript") or []}
    review: JSON = state.get("review") or {}
    court = review.get("court") or outcome  # a person's own words cite nothing of the court's
    said["judge"] = str(court.get("explanation") or "") if court.get("outcome") == "verdict" else ""
    cited = {who: citations(words) for who, words in said.items()}
    return tuple(each.without_words(tuple(who for who, ids in cited.items() if each.id in ids)) for each in brought)


def _research(state: JSON) -> JSON | None:
    """How a verdict on evidence was come by; the record of the run has all of it."""
    if "run" not in state:
        return None
    return {name: state.get(name) for name in ("run", "turn", "tried", "plans", "pages", "judgements", "sufficient")}


def _fault(outcome: JSON) -> dict[str, Any]:
    where = {name: outcome[name] for name in ("seat", "role", "model")}
    return {**where, "kind": outcome.get("form") or outcome.get("error")}
