"""Define what a seat is asked in one call, and read its answer.

A role is data. A whole answer is read as it stands; JSON inside prose or a code fence is taken out; slips of the pen (a
trailing comma, a missing quote) are mended by json-repair. What is never done is to guess: an answer cut short isn't
completed, and of two different objects neither is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from tribunal.core.text import TooDeep, one_line, parse_json, wellformed_json
from tribunal.models.prompt_values import (
    case_variables,
    image_state,
    policy_variables,
    standing_instructions,
)
from tribunal.models.substance import EmptyField, empty_the_fields, find_empty_fields
from tribunal.models.wire_schema import allowed_values, find_json, unwrap
from tribunal.prompts.policy import Policy
from tribunal.prompts.set_file import AnswerNames, leave_open
from tribunal.prompts.sets import PromptSet, shipped_prompts
from tribunal.prompts.template import POLICY_WORDS
from tribunal.schema import JSON, Post, Scheme

Filled = TypeVar("Filled", bound=BaseModel)


@dataclass(frozen=True)
class OwnRequest:
    """A request in the layout that a published model was trained on, in the place of ours.

    Attributes:
        words: the user's turn; the post's image is sent with it.
        system: the standing instructions; where empty, no system message is sent.
        extra: further fields of the request's body, such as `chat_template_kwargs`. The setting `extra_body` overrides
            them.
    """

    words: str
    system: str = ""
    extra: JSON = field(default_factory=dict)


@dataclass(frozen=True)
class Role(Generic[Filled]):
    """The task of a seat in one call.

    Attributes:
        name: its name in the record.
        seat: who is asked.
        prompt: the prompt file, as `folder/name`.
        form: makes the form of the answer from the policy and the scheme in force.
        temperature: the published one; None leaves it to the model.
        falls_to: the setting whose model sits here when the seat has none of its own.
        system: whose standing instructions it gets.
        final: whether it is asked even when the budget is spent.
        plain: for a role that answers in words: reads them, or finds fault with them (ValueError).
        max_output_tokens: takes the place of that setting, where a system sets its own.
        may_be_cut: whether that limit is never raised: an answer that ran into it is taken where it can be read as it
            is, and asked for again within the limit where it can't.
        temperature_of: another seat, whose temperature it takes where one is set for that seat and none for its own.
        shares_draw_temperature: whether it is drawn several times at one temperature: the temperature set for the
            seat, else the setting `draw_temperature`.
        tries: takes the place of the setting `attempts`.
        answer_order: whether its answer begins with the reason or the label, if the run doesn't set it.
        text: the words of the prompt, for one that is no file of a set of prompts.
        request: makes a request in a model's own layout from the post, the policy and the scheme. Neither the prompt
            nor the standing instructions are sent then. Only with `plain`.
    """

    name: str
    seat: str
    prompt: str
    form: Callable[[Policy, Scheme], type[Filled]]
    temperature: float | None
    falls_to: Literal["aux_model", "judge_model", "triage"] = "aux_model"
    system: str = "court"
    final: bool = False
    plain: Callable[[str], Filled] | None = None
    max_output_tokens: int | None = None
    may_be_cut: bool = False
    temperature_of: str = ""
    shares_draw_temperature: bool = False
    tries: int | None = None
    answer_order: Literal["reason-first", "label-first"] = "reason-first"
    text: str = ""
    request: Callable[[Post, Policy, Scheme], OwnRequest] | None = None


@dataclass(frozen=True)
class Question:
    """One call, independent of the model that is asked. The arguments of `ask` describe its parts."""

    role: Role[Any]
    form: type[BaseModel]
    system: str
    post: Post
    material: JSON
    policy: Policy
    scheme: Scheme
    check: Callable[[Any], None] | None
    repeat: int
    draw: int
    shared: str = ""
    shared_material: JSON = field(default_factory=dict)
    prompts: PromptSet = field(default_factory=shipped_prompts)
    own_policy: bool = False
    label_first: bool = False
    reading: str = ""
    mend: Callable[[Any, list[str]], Any] | None = None
    variables: JSON = field(default_factory=dict)
    own: OwnRequest | None = None
    round: int | None = None
    _tasks: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def write_task(self, *, image_unseen: bool = False) -> str:
        """Return the role's own prompt, filled in; another one where the model can't see the post's image.

        Raises:
            PromptError, BadInput: as `PromptSet.render`.
        """
        if self.own is not None:
            return self.own.words
        image = image_state(self.post, unseen=image_unseen)
        if image not in self._tasks:
            wanted = self.prompts.variables(self.role.prompt)
            seat = self.role.seat
            told = case_variables(
                wanted, self.post, seat, self.policy, image, self.variables, self.shared_material
            )
            self._tasks[image] = self.prompts.render(self.role.prompt, {**self.variables, **told})
        return self._tasks[image]

    @property
    def run_name(self) -> str:
        """Return the name of the model's run in a trace: the seat, its task if it has several, the round, the draw."""
        kind, _, which = self.role.seat.partition(":")
        task = self.role.name.removeprefix(kind).removesuffix(f".{which}").strip(".")
        parts = [self.role.seat, task, f"round {self.round}" if self.round else ""]
        return ", ".join(filter(None, [*parts, f"draw {self.draw + 1}" if self.draw else ""]))

    @cached_property
    def depends_on_policy(self) -> bool:
        """Return whether another policy would change the request."""
        other = _different_policy(self.policy)
        role = self.role
        if role.request is not None:
            return role.request(self.post, other, self.scheme) != self.own
        told = standing_instructions(
            self.prompts, role.system, other, self.scheme, own_policy=self.own_policy
        )
        if told != self.system:
            return True
        if any(policy_variables(self.prompts, role.prompt, self.policy, self.scheme).values()):
            return True
        schemas = [_form_schema(role.form, policy, self.scheme) for policy in (self.policy, other)]
        return role.plain is None and schemas[0] != schemas[1]

    def parse_answer(
        self,
        said: str,
        warnings: list[str],
        prompt: str = "",
        emptied: list[EmptyField] | None = None,
    ) -> Any:
        """Return the form, filled in from a model's answer. Corrections are added to the warnings.

        Args:
            said: the model's words.
            warnings: takes a line for each thing that was mended.
            prompt: the prompt of the request.
            emptied: takes the fields whose text says nothing, which are then empty; None: such an answer isn't taken,
                nor is one that contradicts itself.

        Raises:
            SaysNothing: a reason says nothing.
            Contradicts: its fields contradict each other.
            UnreadableAnswer: it isn't of the form, or doesn't pass the check.
        """
        mended: list[str] = []
        try:
            if self.role.plain:
                value = self.role.plain(strip_thinking(said, post=self.post.text))
            else:
                # of other people's
                shown = [
                    *self.post.earlier,
                    *_texts_in([self.material, self.shared_material]),
                ]
                surplus: list[str] = []
                value = read_answer(
                    said, self.form, post=self.post.text, material=shown, surplus=surplus
                )
                if surplus:
                    keys = f"{', '.join(surplus[:_MOST_SURPLUS])}{', …' if surplus[_MOST_SURPLUS:] else ''}"
                    mended.append(
                        f"the {self.role.seat} answered more than it was asked for: {keys}; it was dropped"
                    )
            found = find_empty_fields(value, prompt=prompt, post=self.post.text)
            if found:
                if emptied is None:
                    raise SaysNothing(found)
                value = empty_the_fields(value, {each.field for each in found})
            if self.mend:
                value = self.mend(value, mended)
            try:
                if self.check:
                    self.check(value)
            except Contradicts as problem:
                if emptied is None:
                    raise
                mended.append(
                    f"the {self.role.seat} contradicted itself, even when asked again: {problem}"
                )
        except UnreadableAnswer:
            raise
        except ValueError as problem:
            raise UnreadableAnswer(str(problem)) from problem
        warnings += mended
        if emptied is not None:
            emptied[:] = found
        return value


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in the values that fill a prompt."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts_in(part)


@lru_cache(maxsize=256)
def _form_schema(
    form: Callable[[Policy, Scheme], type[BaseModel]], policy: Policy, scheme: Scheme
) -> JSON:
    return form(policy, scheme).model_json_schema()


@lru_cache(maxsize=64)
def _different_policy(policy: Policy) -> Policy:
    """Return a policy that differs from this policy in every text."""

    def change(held: Any) -> Any:
        if isinstance(held, tuple):
            return tuple(map(change, held))
        if isinstance(held, str):
            return held and f"other {held}"
        return held.model_copy(
            update={name: change(getattr(held, name)) for name in ("name", "meaning")}
        )

    told = (*POLICY_WORDS, "protected_groups", "fine", "binary", "sha")
    return policy.model_copy(update={name: change(getattr(policy, name)) for name in told})


# Reading answers

_MOST_SURPLUS = 5  # keys that a warning names
_LONGEST_KEY = 40  # characters of each
_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?(?:</think(?:ing)?>\s*|\Z)", re.DOTALL)
# Many templates open the thinking themselves, so that the answer holds no more than its end.
_END_OF_THINKING = re.compile(r"</think(?:ing)?>")
_BEGIN_OF_THINKING = re.compile(r"\s*<think(?:ing)?>")
# What to do about a model that thinks until it is cut off.
END_OF_THINKING = (
    "it is thinking without an end; turn thinking off by the setting extra_body, such as "
    "{'*' = {chat_template_kwargs = {enable_thinking = false}}}, or give it room by --set max_output_tokens"
)


class UnreadableAnswer(ValueError):
    """Why an answer can't be taken.

    Attributes:
        complaint: the same for the model that is asked again, without its own words, which it would only repeat.
    """

    def __init__(self, problem: str, complaint: str = "") -> None:
        """Take the problem, and the complaint where it differs."""
        super().__init__(problem)
        self.complaint = complaint or problem


class SaysNothing(UnreadableAnswer):
    """An answer of the right form whose reasons say nothing: the fields, and the problem of each."""

    def __init__(self, fields: Sequence[EmptyField]) -> None:
        """Take the fields."""
        listed = "; ".join(f"{each.field} {each.problem}" for each in fields)
        super().__init__(
            listed,
            f"{listed}. Say in your own words, in whole sentences, what in this post is the reason.",
        )


class Contradicts(UnreadableAnswer):
    """An answer of the right form whose fields contradict each other, or contradict the case."""


def read_in_own_names(
    role: Role[Filled], form: type[Filled], post: str, prompts: PromptSet
) -> Role[Filled]:
    """Return the role as a set of prompts has it answered: in the names that its `set.toml` gives, and by no schema.

    Raises:
        BadInput: it names a field that the form doesn't have.
    """
    names = prompts.file.answers.get(role.prompt)
    if names is None:
        return role
    names.check_fields(form, role.prompt)
    return replace(role, plain=partial(read_answer, form=form, post=post, names=names))


def read_answer(
    text: str,
    form: type[Filled],
    *,
    post: str = "",
    names: AnswerNames | None = None,
    material: Iterable[str] = (),
    surplus: list[str] | None = None,
) -> Filled:
    """Return the answer as the requested form. JSON from the post or the material is a quotation.

    Keys that the form doesn't have are dropped, however deep they are nested.

    Args:
        text: the answer.
        form: the requested form.
        post: the post's text.
        material: other texts from outside that the model was shown: earlier posts, pages, exhibits.
        names: the prompt's names for the fields of the form, if it has its own.
        surplus: takes the dropped keys, each with its path.

    Raises:
        UnreadableAnswer: it is empty, has no JSON object, was cut short, holds two different answers, or isn't of the
            form.
    """
    said = strip_thinking(text, post=post)
    if not said:
        empty = "the answer was empty"
        raise UnreadableAnswer(
            f"{empty}: {END_OF_THINKING}" if is_unended_thinking(text) else empty, empty
        )
    try:
        lists = bool(names and names.items)
        is_free = bool(form.model_fields.keys() - allowed_values(form).keys())
        found = find_json(said, (post, *material), lists=lists, may_equal=not is_free)
        found = found if names else [unwrap(each, form) for each in found]
        if names:
            found = names.rename_answer(said, found)
            form = leave_open(form, names.open, names.items)
        objects = [value for value in found if isinstance(value, dict)]
        if "\\u" in said:  # half a pair may be named by its number
            objects = wellformed_json(objects)
    except (TooDeep, RecursionError):
        raise UnreadableAnswer("the answer was nested too deeply") from None
    if not objects:
        raise UnreadableAnswer(
            f"the answer had no complete JSON {'array' if names and names.items else 'object'}"
        )
    read: list[Filled] = []
    problem: UnreadableAnswer | None = None
    for each in objects:
        try:
            read.append(
                form.model_validate(each, extra="allow" if _takes_any_key(form) else "ignore")
            )
        except ValidationError as error:
            problem = problem or UnreadableAnswer(
                _describe_errors(error), _describe_errors(error, with_values=False)
            )
    if not read:
        raise problem or UnreadableAnswer("the answer was not of the asked form")
    if any(other != read[0] for other in read[1:]):
        raise UnreadableAnswer(
            "the answer had more than one JSON object, and they differ; give exactly one"
        )
    if surplus is not None:
        for each in objects:
            with suppress(ValidationError):
                surplus += _surplus_keys(form.model_validate(each, extra="allow"))
                break
    return read[0]


def _takes_any_key(form: type[BaseModel]) -> bool:
    return form.model_config.get("extra") == "allow"


def _surplus_keys(value: Any, at: str = "") -> Iterator[str]:
    """Yield the path of each key that a form was given and doesn't have, such as scores.stranger."""
    if isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from _surplus_keys(each, f"{at}{place}.")
    elif isinstance(value, BaseModel):
        for key in () if _takes_any_key(type(value)) else value.model_extra or ():
            yield f"{at}{one_line(key)[:_LONGEST_KEY]}"
        for name in type(value).model_fields:
            yield from _surplus_keys(getattr(value, name), f"{at}{name}.")


def strip_thinking(text: str, *, post: str = "") -> str:
    """Return the answer proper, where a model thinks aloud first. A mark quoted from `post` ends nothing."""
    proper = _THINKING.sub("", text).strip()
    if not _END_OF_THINKING.search(proper) or _END_OF_THINKING.search(post):
        return proper
    try:
        parse_json(proper)  # an answer that quotes such a mark is an answer
    except ValueError:
        return _END_OF_THINKING.split(proper)[-1].strip()
    return proper


def is_unended_thinking(text: str) -> bool:
    """Return whether an answer is thinking that never ended, and no more."""
    return bool(_BEGIN_OF_THINKING.match(text)) and not _END_OF_THINKING.search(text)


def _describe_errors(error: ValidationError, *, with_values: bool = True) -> str:
    """Return each problem as `where: what`, with the wrong value, short enough to quote, where it is to be given."""
    parts = []
    for each in error.errors(include_url=False)[:5]:
        where = ".".join(map(str, each["loc"])) or "the answer"
        value = repr(each["input"])
        short = value if len(value) <= 60 else value[:57] + "…"
        parts.append(f"{where}: {each['msg']}" + (f" (given: {short})" if with_values else ""))
    return "; ".join(parts)
