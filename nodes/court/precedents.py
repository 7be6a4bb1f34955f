"""Precedents: the cases that people decided which are most like the post, as the court is shown them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import TribunalError
from tribunal.nodes.agents import node
from tribunal.nodes.state import Case, post_of
from tribunal.nodes.verdict import is_closed
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import JSON, Precedent, Scheme

if TYPE_CHECKING:
    from tribunal.retrievers.precedents.store import DecidedCase

# The fields that a precedent has from the case that was decided.
_SHARED = ("case", "text", "category", "hateful", "how", "note", "at", "policy", "policy_sha")


@node
async def find_precedents(state: Case, runtime: Runtime[Context]) -> JSON:
    """Find the nearest cases of the store in force.

    No model is asked but that of the store's embedding, if it has one.

    A search that fails takes nothing from the case: the trial goes on without precedents, and a warning says so.

    Raises:
        BadInput: there is no such store, or it is damaged.
    """
    context = context_of(state, runtime)
    if is_closed(state) or not context.precedents:
        return {"precedents": []}
    from tribunal.retrievers.precedents.store import open_precedents  # numpy, where a store is named

    store, post = await open_precedents(context.precedents), post_of(state)
    try:
        found = await store.search(post.text, context.precedents_k, post_id=post.id)
    except TribunalError as error:
        return {"precedents": [], "warnings": [f"no precedent was at hand: {error}"]}
    policy = await policy_of(state, runtime)
    brought = []
    for number, each in enumerate(found, start=1):
        case = each.decided
        fields = {name: getattr(case, name) for name in _SHARED}
        here, same = _category_in_this_scheme(case, policy, context.scheme), case.policy_sha == policy.sha
        shown = Precedent(id=f"P{number}", here=here, same_policy=same, similarity=each.similarity, **fields)
        runtime.stream_writer({"event": "precedent", **shown.without_words().dump()})
        brought.append(shown.dump())
    return {"precedents": brought}


def _category_in_this_scheme(case: DecidedCase, policy: Policy, scheme: Scheme) -> str | None:
    """Return the category of the scheme in force that a decision is, or None.

    It goes by its name, or in a binary scheme by whether this policy takes its category for hate.
    """
    if case.category in (each.name for each in policy.categories(scheme)):
        return case.category
    kind = next((each for each in policy.fine if each.name == case.category), None)
    return policy.binary[int(bool(kind.hate))].name if scheme == "binary" and kind else None
