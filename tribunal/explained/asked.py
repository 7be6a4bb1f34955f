"""`tribunal.explain` and `tribunal.aexplain`: a record explained, from Python."""

from __future__ import annotations

import asyncio
from typing import Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from typing_extensions import Unpack

from tribunal.cases.run_config import caller_config, merge_metadata
from tribunal.explained.finding import AtHand, explained
from tribunal.explained.plain import plain
from tribunal.explained.shape import Explanation, Plain
from tribunal.model_objects import run_to_end
from tribunal.prompts.policy import policy_in_force
from tribunal.schema import Record
from tribunal.settings_keywords import CallKeywords
from tribunal.tracing import mask_traces


async def aexplain(
    record: Record,
    *,
    text: str | None = None,
    image: str | None = None,
    policy: str | None = None,
    told_to: Literal["auditor", "poster"] = "auditor",
    language: str | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[CallKeywords],
) -> Explanation | Plain:
    """Explain a case.

    Args:
        record: of any graph and any outcome.
        text: the words of the post, which a record doesn't hold; without them nothing is marked.
        image: its image: a path or a data URI.
        policy: the policy's name or file as it was, where this process hasn't met it.
        told_to: `auditor`: all of it, and no model is asked. `poster`: plain words for the person who posted, with
            nothing of anybody else; a model writes them, and they are checked against the record.
        language: of the poster's explanation, as a tag; by default the post's.
        config: callbacks, tags and metadata of the one call, as LangChain has them.
        settings: of the one call: the fields of `Context`, such as `model`.

    Returns:
        what is known, as data; `tribunal.explained.page.page` makes HTML of it, and `tribunal.explained.markdown`
        Markdown. A notebook shows it by itself.

    Raises:
        BadInput: the policy is another one than the record names, or a setting is wrong.
    """
    from tribunal.context import context_from

    given = {"text": text, "image": image} if text is not None or image is not None else None
    words = (await policy_in_force(policy)).source if policy else None
    context, run = context_from({**settings}), caller_config(config)
    if told_to == "poster":
        mask_traces()

        async def explain_to_poster(_: Record) -> Plain:
            return await plain(record, post=given, policy_text=words, language=language, context=context)

        about = {"graph": record.graph, "post_id": record.post_id, "policy": record.policy.get("sha")}
        explaining = RunnableLambda(explain_to_poster)
        return await explaining.ainvoke(record, merge_metadata(run, about))
    return await explained(AtHand(record, given, case=record.kept or record.thread), policy_text=words)


def explain(
    record: Record,
    *,
    text: str | None = None,
    image: str | None = None,
    policy: str | None = None,
    told_to: Literal["auditor", "poster"] = "auditor",
    language: str | None = None,
    config: RunnableConfig | None = None,
    **settings: Unpack[CallKeywords],
) -> Explanation | Plain:
    """Explain a case and wait for it; arguments, result and errors are those of `aexplain`.

    Raises:
        RuntimeError: an event loop runs already, as in a notebook; await `aexplain` there.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        explaining = aexplain(
            record,
            text=text,
            image=image,
            policy=policy,
            told_to=told_to,
            language=language,
            config=config,
            **settings,
        )
        return run_to_end(explaining, settings)
    raise RuntimeError(
        "tribunal.explain() can't wait where an event loop runs, as in a notebook; write: await tribunal.aexplain(…)"
    )
