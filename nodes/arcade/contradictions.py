"""Check the labels of cues and verdicts against each other.

A model that contradicts itself is asked again once; a contradiction that stays makes the verdict uncertain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tribunal.models.role import Contradicts
from tribunal.nodes.arcade.cues import CueForm, CuesForm
from tribunal.nodes.forms import DecisionForm
from tribunal.nodes.state import CaseState, cues_in, transcript_of
from tribunal.prompts.policy import Policy
from tribunal.schema import Cue, Scheme, standing_cues


def find_wrong_kind(policy: Policy, cue: Cue | CueForm) -> str:
    """Return why the characteristic and the category of a cue contradict each other; empty if they don't.

    Only a policy whose categories name their `groups` says which characteristic is of which category.
    """
    fitting = [kind.name for kind in policy.kinds if cue.characteristic in kind.groups]
    if not fitting or cue.category in fitting:
        return ""
    return f"the characteristic {cue.characteristic} is of the category {' or '.join(fitting)}, and not {cue.category}"


def check_cues(policy: Policy) -> Callable[[CuesForm], None]:
    """Return a check of cues: the characteristic of each is one of its category.

    Raises (when checking):
        Contradicts: it isn't.
    """

    def check(answer: CuesForm) -> None:
        for place, cue in enumerate(answer.cues):
            problem = find_wrong_kind(policy, cue)
            if problem:
                raise Contradicts(f"cues.{place}: {problem}")

    return check


def cues_for(
    policy: Policy, scheme: Scheme, category: str, standing: Sequence[Cue]
) -> list[Cue] | None:
    """Return the standing cues that bear out a hateful category; None where the category needs none.

    In the binary scheme a cue's category is a kind of hate, and each cue bears out the hateful label.
    """
    if policy.label(scheme, category) == 0:
        return None
    kinds = {kind.name for kind in policy.kinds}
    return [cue for cue in standing if cue.category == category or category not in kinds]


def check_decision(
    policy: Policy, scheme: Scheme, state: CaseState
) -> Callable[[DecisionForm], None] | None:
    """Return a check of the judge's decision: a standing cue bears its category out. None for a debate without cues.

    Raises (when checking):
        Contradicts: no standing cue does.
    """
    if state.get("cues") is None:
        return None
    standing = standing_cues(cues_in(state), transcript_of(state))

    def check(decision: DecisionForm) -> None:
        if cues_for(policy, scheme, decision.category, standing) == []:
            held = ", ".join(f"{cue.id} is {cue.category}" for cue in standing) or "no cue stands"
            raise Contradicts(
                f"category: {decision.category}: no cue that stands is of it ({held})"
            )

    return check


def is_contradictory(policy: Policy, scheme: Scheme, category: str, state: CaseState) -> bool:
    """Return whether no cue without a contradiction of its own bears out a hateful category."""
    if state.get("cues") is None:
        return False
    found: Any = cues_for(
        policy, scheme, category, standing_cues(cues_in(state), transcript_of(state))
    )
    return found is not None and all(find_wrong_kind(policy, cue) for cue in found)
