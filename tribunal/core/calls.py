"""Calls to models: the record of one, what several have cost and shown, and whether the rehearsal model was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

JSON = dict[str, Any]
ShownPart = Literal["text", "image", "policy"]


class Frozen(BaseModel):
    """The base of every model here: frozen, and strict about names it doesn't know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def dump(self) -> JSON:
        """Return the plain JSON form in which state, checkpoints and records carry this."""
        return self.model_dump(mode="json")


class Call(Frozen):
    """One request to a chat model, its re-asks and retries included. `temperature` is None where none was sent."""

    id: str = Field(description="its id within the record")
    role: str = Field(description="what was asked of the model")
    seat: str = Field(description="for which seat of the graph")
    model: str = Field(description="provider and model")
    model_class: str | None = Field(
        default=None,
        description="the class of the model where it was given as an object; None where it was named",
    )
    served: str | None = Field(
        default=None,
        description="the model that answered, as its provider calls it; in brackets, where its server says so, what it "
        "calls its weights and configuration (`system_fingerprint`)",
    )
    temperature: float | None = Field(description="the temperature sent; null if none")
    wanted_temperature: float | None = Field(
        default=None, description="the temperature set, if the model took another"
    )
    prompt_sha: str = Field(description="the hash of the whole prompt")
    prompt_tokens: int = Field(default=0, description="tokens of the prompt")
    cached_tokens: int = Field(
        default=0, description="of the prompt's tokens, those the provider's own cache served"
    )
    completion_tokens: int = Field(default=0, description="tokens of the answer")
    seconds: float = Field(default=0.0, description="how long it took, retries included")
    attempts: int = Field(default=1, description="attempts, the first included")
    cached: bool = Field(default=False, description="true: the answer came from the cache")
    format: str = Field(
        default="",
        description="the response format that was answered: json_schema, json_object or prompt",
    )
    key: int | None = Field(default=None, description="which key of the provider's pool, by number")
    shown: tuple[ShownPart, ...] | None = Field(
        default=None,
        description="what of the case stood in the request that was answered; None in old records",
    )
    repeat: int = Field(default=0, description="which repeat of a run this call belongs to")
    draw: int = Field(default=0, description="which of several draws of the same call this is")
    emptied: tuple[str, ...] = Field(
        default=(),
        # The release before reads no call with a field that it doesn't know.
        exclude_if=lambda names: not names,
        description="the fields of its answer that were left empty, since what stood there said nothing; absent: none",
    )
    estimated: bool = Field(
        default=False,
        exclude_if=lambda estimated: not estimated,
        description="true: some of its tokens were counted here, since the server didn't say them; absent: no",
    )
    error: str | None = Field(default=None, description="the error, if it failed")


class Usage(Frozen):
    """The cost of a post: answers from the cache cost nothing. `seconds` is summed over calls, not wall time."""

    calls: int = Field(default=0, description="paid requests")
    prompt_tokens: int = Field(default=0, description="tokens of prompts")
    completion_tokens: int = Field(default=0, description="tokens of answers")
    seconds: float = Field(default=0.0, description="summed over the calls")
    cached_tokens: int = Field(
        default=0, description="tokens of prompts that a provider's cache served"
    )
    estimated: int = Field(
        default=0,
        exclude_if=lambda calls: not calls,
        description="paid requests whose tokens were counted here, since the server didn't say them; absent: none",
    )

    @classmethod
    def from_calls(cls, calls: list[JSON]) -> Usage:
        """Sum up what calls have cost."""
        paid = [call for call in calls if not call["cached"]]
        return cls(
            calls=len(paid),
            prompt_tokens=sum(call["prompt_tokens"] for call in paid),
            completion_tokens=sum(call["completion_tokens"] for call in paid),
            seconds=round(sum(call["seconds"] for call in paid), 3),
            cached_tokens=sum(call["cached_tokens"] for call in paid),
            estimated=sum(bool(call.get("estimated")) for call in paid),
        )


def parts_shown(calls: Sequence[JSON]) -> frozenset[ShownPart] | None:
    """Return what of the case a call was shown; None where a call of an old record doesn't say."""
    held = [call.get("shown") for call in calls]
    return None if None in held else frozenset(each for shown in held for each in shown or ())


def lacks_a_reason(calls: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a reason in the answer to one of these calls was left empty, since it said nothing."""
    return any(call.get("emptied") for call in calls)


REHEARSAL = "rehearsal:court"
REHEARSED = (
    "the rehearsal model took part: it follows a small set of written rules, knows nothing of the world, and is no "
    "moderator; name a model with --model or TRIBUNAL_MODEL"
)
# What stands at every outcome that it took part in.
DEMO_NOTICE = "Demo rules only: this is not a moderation decision."
# How a warning begins about a model that failed its exam (`tribunal doctor --try`).
UNFIT_MODEL = "unfit model: "
# What it says where its rules find nothing.
NOTHING_FOUND = (
    "The rehearsal rules found nothing in the post. They know few words and miss most attacks, so this doesn't mean "
    "that the post is fine."
)


def was_rehearsed(calls: Iterable[Mapping[str, Any]], warnings: Iterable[str] = ()) -> bool:
    """Return whether the rehearsal model took part: in one of these calls, or in a replay, which leaves no call."""
    return REHEARSED in warnings or any(call.get("model") == REHEARSAL for call in calls)


def warnings_of_unfit_models(warnings: Iterable[str]) -> list[str]:
    """Return the warnings of a case that name a model which had failed its exam."""
    return [each for each in warnings if each.startswith(UNFIT_MODEL)]
