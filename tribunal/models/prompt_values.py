"""Values that every prompt can use: of the policy, of the case, and of an appeal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tribunal.core.language import language_name
from tribunal.prompts.marks import Entry, Ours, entries, listing, operator_words, ours, quote
from tribunal.prompts.policy import QUESTIONS, Policy
from tribunal.prompts.sets import PromptSet
from tribunal.prompts.template import OF_THE_CASE, OF_THE_POLICY, OF_THE_SYSTEM, POLICY_WORDS
from tribunal.schema import JSON, Post, Scheme
from tribunal.settings.context import Context


@dataclass(frozen=True)
class SharedPrompt:
    """A prompt that every seat of a case is shown beside the post, and its variables."""

    prompt: str
    material: JSON


def appeal_prompt(post: Post, seat: str) -> SharedPrompt | None:
    """Return the appeal against an earlier verdict, for every seat but the gatekeeper, who sees only the post."""
    if post.appeal is None or seat == "gatekeeper":
        return None
    said = [(name, text) for name, text in post.appeal if text]
    return SharedPrompt("court/appeal", {"appeal": entries("appeal", [Entry(None, said)])})


def image_state(post: Post, *, unseen: bool) -> Ours:
    """Return the state of a post's image for a model, in the words of prompts: shown, unseen or none."""
    return ours("none") if post.image is None else ours("unseen") if unseen else ours("shown")


@lru_cache(maxsize=128)
def render_post(
    prompts: PromptSet,
    text: str,
    image: Ours,
    tag: Ours,
    earlier: tuple[str, ...],
    reading: str = "",
) -> str:
    """Return the post as every seat of a case is shown it; `tag` is its language, `reading` a reading aid."""
    filled: JSON = {
        "post": quote("post", text, lines=True) if text else "",
        "image": image,
        "language": ours("{} ({})", operator_words(language_name(tag)), tag) if tag else "",
        "earlier": listing("earlier", earlier) if earlier else "",
    }
    if "reading" in prompts.variables("post"):
        filled["reading"] = quote("reading", reading, lines=True) if reading else ""
    return prompts.render("post", filled)


def case_variables(
    wanted: frozenset[str],
    post: Post,
    seat: str,
    policy: Policy,
    image: Ours,
    material: JSON,
    exhibits: JSON,
) -> JSON:
    """Return the case's values for a role's prompt. Nodes don't pass them.

    Args:
        wanted: the variables of the prompt.
        post: the post.
        seat: who is asked.
        policy: the policy in force.
        image: whether the model sees the image: shown, unseen or none.
        material: the values that the node fills into the prompt.
        exhibits: the case's material beside the post, as it is shown.
    """
    held = {**material, **exhibits}
    tag = post.language or policy.language
    same = tag.partition("-")[0] == policy.language.partition("-")[0]
    unknown = post.language is None and bool(post.text)
    author_language = ours("") if same else operator_words(language_name(tag))
    values: JSON = {
        "image": image,
        "text_and_image": bool(post.text) and image == "shown",
        "author_language": ours("the language of the post") if unknown else author_language,
        "has_earlier": bool(post.earlier),
        "has_appeal": appeal_prompt(post, seat) is not None,
        "has_exhibits": bool(exhibits),
        "has_passages": bool(held.get("evidence")),
        "has_opinions": bool(held.get("opinions")),
        "has_precedents": bool(held.get("precedents")),
        "has_question": bool(held.get("question")),
        "first_passage": held.get("first", ""),
        "first_precedent": held.get("first_case", ""),
    }
    return {name: values[name] for name in wanted & OF_THE_CASE}


@lru_cache(maxsize=64)
def standing_instructions(
    prompts: PromptSet, system: str, policy: Policy, scheme: Scheme, *, own_policy: bool = False
) -> str:
    """Return the part that every call of a system shares, and that providers can therefore cache.

    Args:
        prompts: the prompts in force.
        system: whose part it is.
        policy: the policy in force.
        scheme: the scheme in force.
        own_policy: whether the run names another policy than the task's own.
    """
    prompt = f"system/{system}"
    wanted = prompts.variables(prompt) & OF_THE_SYSTEM
    values = _policy_values(policy, scheme, wanted - {"own_policy"})
    return prompts.render(
        prompt, {**values, **({"own_policy": own_policy} if "own_policy" in wanted else {})}
    )


@lru_cache(maxsize=256)
def policy_variables(prompts: PromptSet, prompt: str, policy: Policy, scheme: Scheme) -> JSON:
    """Return the policy's variables of a role's prompt beside the standing instructions. Nodes don't pass them."""
    return _policy_values(policy, scheme, prompts.variables(prompt) & OF_THE_POLICY)


def policy_shown(
    prompts: PromptSet,
    prompt: str,
    policy: Policy,
    scheme: Scheme,
    context: Context,
    state: Mapping[str, Any],
) -> JSON:
    """Return `policy_variables`, with the examples only where they are shown: as set, else as the graph has it."""
    values = policy_variables(prompts, prompt, policy, scheme)
    own = state.get("policy_examples", False)
    if not values.get("category_examples"):
        return values
    shown = own if context.policy_examples is None else context.policy_examples
    return values if shown else {**values, "category_examples": ""}


def shows_clauses(context: Context, *, own_policy: bool) -> bool:
    """Return whether the policy's clauses are shown and cited: as set, else where it isn't the task's own.

    Args:
        context: the settings of the run.
        own_policy: whether the run names another policy than the task's own.
    """
    return own_policy if context.policy_clauses is None else context.policy_clauses


def _policy_values(policy: Policy, scheme: Scheme, wanted: frozenset[str]) -> JSON:
    examples = policy.examples(scheme)
    values = {
        **{name: operator_words(getattr(policy, name)) for name in POLICY_WORDS},
        "language": operator_words(language_name(policy.language)),
        "groups": operator_words(", ".join(policy.protected_groups)),
        "categories": policy.categories(scheme),
        "category_examples": quote("examples", examples, lines=True) if examples else "",
        # Of hate, where the standing instructions name none: a binary court's prosecution still tells them apart.
        "kinds": policy.kinds if scheme == "binary" else (),
        "clauses": policy.clauses,
        "question": operator_words(QUESTIONS[policy.task]),
        "labels": policy.binary,
    }
    return {name: values[name] for name in wanted}
