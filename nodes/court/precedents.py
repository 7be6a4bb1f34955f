"""What was decided before: the cases that people decided which are most like the post, as the court is shown them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import TribunalError
from tribunal.nodes.agents import node
from tribunal.nodes.state import Case, closed, post_of
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import JSON, Precedent, Scheme
from tribunal.telling import tell

if TYPE_CHECKING:
    from tribunal.retrievers.precedents.decided import DecidedCase
    from tribunal.retrievers.precedents.store import Found


@node
async def find_precedents(state: Case, runtime: Runtime[Context]) -> JSON:
    """The nearest cases of the store in force. No model is asked but that of the store's embedding, where it has one.

    A search that fails takes nothing from the case: the trial goes on without precedents, and a warning says so.

    Raises:
        BadInput: there is no such store, or it is damaged.
    """
    context = context_of(state, runtime)
    if closed(state) or not context.precedents:
        return {"precedents": []}
    from tribunal.retrievers.precedents.opening import open_precedents  # numpy, where a store is named

    store, post = await open_precedents(context.precedents), post_of(state)
    try:
        found = await store.nearest(post.text, context.precedents_k, post_id=post.id)
    except TribunalError as error:
        return {"precedents": [], "warnings": [f"no precedent was at hand: {error}"]}
    policy = await policy_of(state, runtime)
    brought = [_brought(f"P{n}", each, policy, context.scheme) for n, each in enumerate(found, start=1)]
    for each in brought:
        tell(runtime, {"event": "precedent", **each.without_words().dump()})
    return {"precedents": [each.dump() for each in brought]}


def _brought(id: str, found: Found, policy: Policy, scheme: Scheme) -> Precedent:
    case = found.decided
    return Precedent(
        id=id,
        case=case.case,
        text=case.text,
        category=case.category,
        here=_here(case, policy, scheme),
        hateful=case.hateful,
        how=case.how,
        note=case.note,
        at=case.at,
        policy=case.policy,
        policy_sha=case.policy_sha,
        same_policy=case.policy_sha == policy.sha,
        similarity=found.similarity,
    )


def _here(case: DecidedCase, policy: Policy, scheme: Scheme) -> str | None:
    """The category of the scheme in force that a decision is: by its name, or where the scheme is binary, by whether
    this policy takes its category for hate."""
    if case.category in (each.name for each in policy.categories(scheme)):
        return case.category
    kind = next((each for each in policy.fine if each.name == case.category), None)
    return policy.binary[int(bool(kind.hate))].name if scheme == "binary" and kind else None
