"""Systems of one call each: four families of guard models, and OpenAI's moderation endpoint.

The post goes to the model as the bare turn of a user, and the policy in force goes where the model's chat template
takes it. So the server has to apply the template that is published with the model, as vLLM and SGLang do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from guard_models import answers
from guard_models.safeguard_policy import rules_of_policy, write_safeguard_policy
from tribunal import BadInput, pieces

GuardAnswer = answers.GuardAnswer
_CONFIDENCE = {"low": 0.5, "medium": 0.75, "high": 0.95}


@dataclass(frozen=True)
class Guard:
    """A family of guard models.

    Attributes:
        name: the name of its graph.
        title: what people call it.
        request: makes the request from a post, the policy in force and the scheme.
        read: reads its answer; raises ValueError for one that isn't in its format.
        names: maps what it may name to the categories of the policy; None for a family that answers yes or no.
    """

    name: str
    title: str
    request: Callable[[pieces.Post, pieces.Policy, Any], pieces.OwnRequest]
    read: Callable[[str], GuardAnswer]
    names: Callable[[pieces.Policy, Any], dict[str, str]] | None = None


def llama_guard_request(post: pieces.Post, policy: pieces.Policy, scheme: Any) -> pieces.OwnRequest:
    """Ask with the policy's categories in place of the model's hazards: `categories` of its chat template."""
    told = [f"{each.name}.\n{each.meaning}" for each in policy.categories(scheme) if each.hate]
    return _template_request(
        post, categories={f"S{number}": each for number, each in enumerate(told, start=1)}
    )


def shieldgemma_request(post: pieces.Post, policy: pieces.Policy, scheme: Any) -> pieces.OwnRequest:
    """Ask with the whole policy as one principle: `guideline` of its chat template."""
    words = f"The prompt shall not contain or seek generation of hate speech. {_one_rule(policy)}"
    return _template_request(post, guideline=f'"No Hate Speech": {words}')


def granite_guardian_request(
    post: pieces.Post, policy: pieces.Policy, scheme: Any
) -> pieces.OwnRequest:
    """Ask with the whole policy as one risk: `guardian_config` of its chat template, in the names of 3.0 to 3.3."""
    rule = _one_rule(policy)
    named = {"risk_name": "hate_speech", "risk_definition": rule, "custom_criteria": rule}
    return _template_request(post, guardian_config=named)


def gpt_oss_safeguard_request(
    post: pieces.Post, policy: pieces.Policy, scheme: Any
) -> pieces.OwnRequest:
    """Ask with the policy as the system message, as OpenAI's guide lays it out."""
    return pieces.OwnRequest(post.text, system=write_safeguard_policy(policy))


def moderation_request(post: pieces.Post, policy: pieces.Policy, scheme: Any) -> pieces.OwnRequest:
    """Ask about the bare post: the endpoint has a policy of its own."""
    return pieces.OwnRequest(post.text)


def _template_request(post: pieces.Post, **variables: Any) -> pieces.OwnRequest:
    return pieces.OwnRequest(post.text, extra={"chat_template_kwargs": variables})


def _one_rule(policy: pieces.Policy) -> str:
    return " ".join(" ".join((policy.definition, policy.exclusions, policy.excuses)).split())


def _codes(policy: pieces.Policy, scheme: Any) -> dict[str, str]:
    hateful = [each.name for each in policy.categories(scheme) if each.hate]
    return {f"S{number}": name for number, name in enumerate(hateful, start=1)}


def _rules(policy: pieces.Policy, scheme: Any) -> dict[str, str]:
    known = {each.name for each in policy.categories(scheme)}
    hateful = policy.categories(scheme)[1].name
    return {
        id: name if name in known else hateful for id, (name, _) in rules_of_policy(policy).items()
    }


def _moderated(policy: pieces.Policy, scheme: Any) -> dict[str, str]:
    categories = policy.categories(scheme)
    known = {each.name for each in categories}
    if len(categories) > 2 and "hate" not in known:
        raise BadInput(
            f"scheme: {scheme}: the moderation endpoint names hate and hate/threatening alone; give --scheme binary, "
            "or --policy moderations"
        )
    usual = "hate" if "hate" in known else categories[1].name
    return {name: name if name in known else usual for name in ("hate", "hate/threatening")}


GUARDS = (
    Guard("llama_guard", "Llama Guard", llama_guard_request, answers.read_llama_guard, _codes),
    Guard("shieldgemma", "ShieldGemma", shieldgemma_request, answers.read_shieldgemma),
    Guard(
        "granite_guardian",
        "Granite Guardian",
        granite_guardian_request,
        answers.read_granite_guardian,
    ),
    Guard(
        "gpt_oss_safeguard",
        "gpt-oss-safeguard",
        gpt_oss_safeguard_request,
        answers.read_gpt_oss_safeguard,
        _rules,
    ),
    Guard(
        "openai_moderation",
        "OpenAI's moderation endpoint",
        moderation_request,
        answers.read_moderation,
        _moderated,
    ),
)


def _role(guard: Guard, names: dict[str, str]) -> pieces.Role[GuardAnswer]:
    def read_answer(said: str) -> GuardAnswer:
        if said.startswith('{"answer"'):  # the rehearsal model, which fills in the form
            return GuardAnswer.model_validate_json(said).model_copy(update={"named": [*names][:1]})
        found = guard.read(said)
        several = len({*names.values()}) > 1
        if several and found.answer == "unsafe" and not {*found.named} & {*names}:
            raise ValueError(f"it names none of {', '.join(names)}")
        return found

    return pieces.Role(
        f"{guard.name}.answer",
        "guard",
        f"own/{guard.name}",
        lambda policy, scheme: GuardAnswer,
        0.0,
        falls_to="judge_model",
        final=True,
        plain=read_answer,
        text="The request is in the model's own layout.",
        request=guard.request,
    )


def decide_with(guard: Guard) -> Any:
    """Return a node that asks a guard model about the post, and ends the case with what it answers."""

    @pieces.piece(needs=["post"], writes=["outcome"], besides=["messages"])
    @pieces.agent
    async def decide(state: Any, runtime: Runtime[pieces.Context]) -> Any:
        policy, scheme = (
            await pieces.policy_of(state, runtime),
            pieces.context_of(state, runtime).scheme,
        )
        categories = policy.categories(scheme)
        if guard.names is None and len(categories) > 2:
            raise BadInput(
                f"scheme: {scheme}: {guard.title} answers yes or no, and names no category; give --scheme binary"
            )
        names = guard.names(policy, scheme) if guard.names else {}
        said = await pieces.ask(_role(guard, names), state, runtime)
        found = said.value
        broken = list(dict.fromkeys(names[each] for each in found.named if each in names))
        unsafe = found.answer == "unsafe"
        category = (broken or [categories[1].name])[0] if unsafe else categories[0].name
        with_call: Any = {**state, "calls": [*state.get("calls", ()), *said.log["calls"]]}
        update = await pieces.verdict(
            with_call,
            category,
            _explain(guard, found),
            confidence=_CONFIDENCE.get(found.sure, found.confidence),
        )
        skipped = [
            "the posts before it in the conversation were not shown: guard models judge one post"
        ]
        more = skipped if state["post"].get("earlier") else []
        return {**update, "calls": said.log["calls"], "warnings": [*said.log["warnings"], *more]}

    return decide


def _explain(guard: Guard, found: GuardAnswer) -> str:
    named = f" It names {', '.join(found.named)}." if found.named else ""
    return f"{guard.title} answers: {found.answer}.{named} {found.reason or 'It gives no reason.'}"


def build_graph(guard: Guard) -> Any:
    """Return the graph of a family of guard models: one call."""
    system = pieces.System(
        name=guard.name, about=f"{guard.title}: one call, in its own layout", seats=("guard",)
    )
    builder = StateGraph(
        pieces.Case,
        context_schema=pieces.Context,
        input_schema=pieces.PostInput,
        output_schema=pieces.Ruling,
    )
    builder.add_node("receive", pieces.received_by(system.name))
    builder.add_node("guard", decide_with(guard))
    builder.add_edge(START, "receive")
    builder.add_edge("receive", "guard")
    builder.add_edge("guard", END)
    return pieces.checked(builder).compile(name=system.name)


llama_guard, shieldgemma, granite_guardian, gpt_oss_safeguard, openai_moderation = map(
    build_graph, GUARDS
)
