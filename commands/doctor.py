"""`tribunal doctor`: what is usable here, what is missing, and how to get it."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from typer import Exit, Option

from tribunal.commands.options import parse_settings
from tribunal.commands.printing import print_template
from tribunal.commands.shared_options import AsJson
from tribunal.core.text import count_noun, parse_json, scrub
from tribunal.errors import BadInput
from tribunal.process.terminal import say_json, screen

if TYPE_CHECKING:
    from pathlib import Path

    from tribunal.models.exam_results import ExamResult
    from tribunal.models.providers import ModelName
    from tribunal.models.server_wait import ServerSlots
    from tribunal.review.model_exam import Exam
    from tribunal.schema import JSON
    from tribunal.settings.context import Context

_MARKS = {"ok": ("✓", "green"), "missing": ("–", "yellow"), "broken": ("✗", "red")}


def doctor(
    as_json: AsJson = False,
    offline: Annotated[bool, Option(help="Ask no server whether it answers.")] = False,
    examine: Annotated[
        bool,
        Option(
            "--try",
            help="Examine the model by ten plain posts, about 8,000 tokens. To pass, it tells hate apart, quotes the "
            "post and gives the right form, each in 9 of 10. Verdicts of a model that failed say so until it passes.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="The model to look at, as provider:model. Default: TRIBUNAL_MODEL.",
        ),
    ] = None,
    given: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="With --try: a setting of its calls: extra_body, prompts, max_output_tokens, timeout or attempts. May "
            "be given again.",
        ),
    ] = None,
) -> None:
    """Say which models can be used here: keys found, servers answering, what is missing. Spends nothing but for --try.

    Exit status 1: something in force is broken (✗): the model, its server, the data folder, or its last exam.
    """
    if offline and examine:
        raise BadInput("try: asks a model; leave --offline out")
    if given and not examine:
        raise BadInput(f"set: {given[0]}: is a setting of the exam; give --try as well")
    checks, exams = asyncio.run(
        _run_checks(offline, model, parse_settings(given or []) if examine else None)
    )
    if as_json:
        say_json(
            {
                "checks": [each._asdict() for each in checks],
                "exams": [each.as_json() for each in exams],
            }
        )
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table("", "what", "found", box=None, pad_edge=False)
        for check in checks:
            mark, colour = _MARKS[check.state]
            table.add_row(Text(mark, style=colour), check.what, check.found)
        screen().print(table)
        for each in exams:
            print_exam(each)
    if any(each.in_force and each.state == "broken" for each in checks):
        raise Exit(1)


class Check(NamedTuple):
    """The state of one thing: `ok`, `missing` or `broken`, that in words, and whether a run here would use it."""

    what: str
    state: str
    found: str
    in_force: bool = False


class ProviderCheck(NamedTuple):
    """A provider as it was found, and the models that its server lists; None: it wasn't asked, or lists none."""

    check: Check
    models: list[str] | None = None


async def _run_checks(
    offline: bool, model: str | None, exam_settings: dict[str, Any] | None
) -> tuple[list[Check], list[TakenExam]]:
    """Check everything, and examine the models in force if there are settings for it."""
    from tribunal import plugins
    from tribunal.core.calls import REHEARSAL
    from tribunal.models.registry import PROVIDERS
    from tribunal.settings.environment import data_folder, environment

    held = environment()
    rehearsal = REHEARSAL.partition(":")[0]
    names = [
        name for name in (*PROVIDERS, *plugins.names("tribunal.providers")) if name != rehearsal
    ]
    found = await asyncio.gather(*(_check_provider(name, held, offline) for name in names))
    has_studio = find_spec("langgraph_api") is not None
    studio = (
        "langgraph dev serves every graph"
        if has_studio
        else "install tribunal-court[studio] for langgraph dev"
    )
    in_force, models = _check_models_in_force(model, held, dict(zip(names, found, strict=True)))
    asked = {each.provider for each in models}
    exam_checks = [_last_exam(each, held) for each in models if str(each) != REHEARSAL]
    exams = list[TakenExam]()
    if exam_settings is not None and in_force.state != "broken":
        exam_checks, exams = await _examine_models(models, held, exam_settings)
    return [
        in_force,
        *exam_checks,
        *(each.check._replace(in_force=each.check.what in asked) for each in found),
        Check("rehearsal", "ok", "always there; no moderator, for trying things out"),
        _check_folder(data_folder(held)),
        Check("studio", "ok" if has_studio else "missing", studio),
    ], exams


def _check_models_in_force(
    given: str | None, held: dict[str, str], found: dict[str, ProviderCheck]
) -> tuple[Check, tuple[ModelName, ...]]:
    """Return whether the models in force can be asked and their servers list them, and the models themselves.

    Args:
        given: those of `--model`; None: those of TRIBUNAL_MODEL.
        held: the settings outside a run.
        found: the providers, by name.
    """
    from tribunal.core.calls import REHEARSAL
    from tribunal.models.exam_results import is_same_model
    from tribunal.models.registry import resolve_models

    where, named = ("model", given) if given else ("TRIBUNAL_MODEL", held.get("TRIBUNAL_MODEL"))

    def check(state: str, words: str) -> Check:
        return Check("model in force", state, words, in_force=True)

    if not named:
        words = f"{REHEARSAL}: offline, by rules; set TRIBUNAL_MODEL or --model"
        return check("ok", words), resolve_models(REHEARSAL, held, where)
    try:
        models = resolve_models(named, held, where)
    except BadInput as error:
        return check("broken", str(error)), ()
    for model in models:
        server = found.get(model.provider, ProviderCheck(Check("", "ok", "")))
        if server.check.state != "ok":
            return check(
                "broken", f"{model} ({where}); {model.provider}: {server.check.found}"
            ), models
        if server.models is not None and not any(
            is_same_model(model.model, listed) for listed in server.models
        ):
            some = ", ".join(server.models[:5]) + (", …" if len(server.models) > 5 else "")
            why = f"its server doesn't list it; it lists {some or 'none'}"
            return check("missing", f"{model} ({where}); {why}"), models
    return check("ok", f"{named} ({where})"), models


def _last_exam(model: ModelName, held: dict[str, str]) -> Check:
    """Return what the last exam of a model came to, at the address that is set."""
    from tribunal.models.exam_results import exam_address, read_exam_results
    from tribunal.models.registry import provider_of
    from tribunal.settings.environment import data_folder

    address = exam_address(provider_of(model).base_url(held))
    last = read_exam_results(data_folder(held)).get((str(model), address))
    if last is None:
        return Check(
            f"exam of {model}",
            "missing",
            "not taken; tribunal doctor --try takes it",
            in_force=True,
        )
    return _check_exam(last)


async def _examine_models(
    models: tuple[ModelName, ...], held: dict[str, str], settings: dict[str, Any]
) -> tuple[list[Check], list[TakenExam]]:
    """Examine the models in force, and return the checks and the exams."""
    from tribunal.errors import ModelError

    checks = list[Check]()
    exams = list[TakenExam]()
    for model in models:
        try:
            exams.append(await take_exam(str(model), settings, held))
            checks.append(_check_exam(exams[-1].exam.result))
            from tribunal.models.ladder import learnt_of
            from tribunal.models.registry import provider_of

            lines = learnt_of(
                str(model), provider_of(model).base_url(held), model.number
            ).describe()
            checks += [Check(f"learnt of {model}", "ok", "; ".join(lines))] if lines else []
        except ModelError as error:
            checks.append(
                Check(f"exam of {model}", "broken", f"not finished: {error}", in_force=True)
            )
    return checks, exams


def _check_exam(result: ExamResult) -> Check:
    from tribunal.core.times import format_date

    state = "ok" if result.has_passed else "broken"
    return Check(
        f"exam of {result.model}",
        state,
        f"{result.in_words}; {format_date(result.at)}",
        in_force=True,
    )


async def _check_provider(name: str, held: dict[str, str], offline: bool) -> ProviderCheck:
    from tribunal.models.registry import find_provider

    try:
        provider = find_provider(name, "model")
        assert provider is not None  # noqa: S101 (it is ours, or declared)
        provider.check_address(held)
    except BadInput as error:
        return ProviderCheck(Check(name, "broken", str(error)))
    keys = provider.key_pool(held)
    if provider.needs_key(held) and not keys:
        where = f" (from {provider.where})" if provider.where else ""
        return ProviderCheck(
            Check(name, "missing", f"no key; set {' or '.join(provider.keys)}{where}")
        )
    count = count_noun(len(keys), "key") if keys else "no key needed"
    if offline or provider.listing is None:
        return ProviderCheck(Check(name, "ok", f"{count}; not asked"))
    url = provider.request_url(held, provider.listing)
    headers = {**provider.account_headers(held), **provider.headers(keys[0] if keys else None)}
    state, answer, models = await _ask_server(url, headers, keys)
    setting = provider.address_setting(held)
    if state == "silent" and provider.takes_no_key and not setting:
        # A server of one's own that isn't running is no fault, where nobody said that there is one.
        return ProviderCheck(Check(name, "missing", f"not running ({urlsplit(url).netloc})"))
    if state == "silent":
        state = "broken"
        answer = answer + (f" (the address is that of {setting})" if setting else "")
    return ProviderCheck(Check(name, state, f"{count}; {answer}"), models)


async def _ask_server(
    url: str, headers: dict[str, str], keys: list[str]
) -> tuple[str, str, list[str] | None]:
    """Return whether a server answers (`ok`, `silent` or `broken`), that in words, and which models it lists."""
    from tribunal.models.providers.http import fetch

    parts = urlsplit(url)
    try:
        async with asyncio.timeout(10):
            status, _, raw = await fetch("GET", url, headers, keys=keys)
    except (OSError, ValueError) as error:
        return (
            "silent",
            f"{parts.hostname} doesn't answer: {scrub(str(error) or type(error).__name__, keys)}",
            None,
        )
    if not 200 <= status < 300:
        asked = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        moved = "; it redirects, so set the base URL to its new place" if status < 400 else ""
        return "broken", f"{parts.hostname} says {status} ({asked}){moved}", None
    return "ok", f"{parts.hostname} answers", _models_in(raw)


def _models_in(raw: bytes) -> list[str] | None:
    """Return the models that a server lists, in OpenAI's form, Anthropic's, Gemini's or Ollama's; None of another."""
    try:
        body: JSON = parse_json(raw)
        # A page of a longer list says nothing of what it lacks.
        if body.get("has_more") or body.get("nextPageToken"):
            return None
        listed: Any = body.get("data", body.get("models"))
        return [str(each.get("id") or each["name"]).removeprefix("models/") for each in listed]
    except (ValueError, AttributeError, TypeError, KeyError):
        return None


def _check_folder(folder: Path) -> Check:
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if os.access(nearest, os.W_OK):
        return Check("data folder", "ok", str(folder), in_force=True)
    return Check(
        "data folder",
        "broken",
        f"{folder} can't be written; set TRIBUNAL_DATA to one that can",
        in_force=True,
    )


# The exam of `tribunal doctor --try`: asked, printed, and what its figures advise

# Tokens of a slot that a debate fits into: the rehearsal model's short one asks with 2,700, and models speak longer.
DEBATE_TOKENS = 8_192


class Advice(NamedTuple):
    """A setting to give a run, and why."""

    setting: str
    why: str


class TakenExam(NamedTuple):
    """The result of an exam, the slots that the server reports, and the settings to change."""

    exam: Exam
    slots: ServerSlots | None
    advice: tuple[Advice, ...]

    def as_json(self) -> JSON:
        """Return it for `--json`."""
        result = self.exam.result
        slots = self.slots
        return {
            **result.dump(),
            "passed": result.has_passed,
            "tokens_per_second": round(self.exam.tokens_per_second, 1),
            "slots": slots.total_slots if slots else None,
            "context": slots.context if slots else None,
            "faults": self.exam.faults,
            "warnings": self.exam.warnings,
            "advice": [each._asdict() for each in self.advice],
        }


async def take_exam(
    model: str, settings: dict[str, Any], environment: Mapping[str, str]
) -> TakenExam:
    """Say what an exam costs, examine a model, and keep the result, but for the rehearsal model's.

    Raises:
        BadInput, ModelError: as `examine_model`.
    """
    from tribunal.core.calls import REHEARSAL
    from tribunal.models.exam_results import POSTS, keep_exam_results
    from tribunal.models.registry import model_names, provider_of
    from tribunal.models.server_wait import read_server_slots
    from tribunal.review.model_exam import ABOUT_TOKENS, examine_model
    from tribunal.settings.context import context_from
    from tribunal.settings.environment import data_folder

    print_template("exam", aside=True, part="cost", model=model, posts=POSTS, tokens=ABOUT_TOKENS)
    exam = await examine_model(model, settings)
    if model != REHEARSAL:
        keep_exam_results(data_folder(environment), [exam.result])
    provider = provider_of(model_names(model, "model")[0])
    slots = await read_server_slots(provider, environment)
    own_server = provider.address_setting(environment) is not None or (
        provider.takes_no_key and model != REHEARSAL
    )
    return TakenExam(
        exam, slots, advise(exam, slots, context_from(settings), own_server=own_server)
    )


def print_exam(taken: TakenExam) -> None:
    """Print what an exam came to, and what to set."""
    from tribunal.models.exam_results import CRITERION, POSTS

    print_template("exam", part="result", posts=POSTS, criterion=CRITERION, **taken._asdict())


def advise(
    exam: Exam, slots: ServerSlots | None, context: Context, *, own_server: bool
) -> tuple[Advice, ...]:
    """Return the settings to change, from the exam and the server's slots; none for a provider's own servers."""
    advice = list[Advice]()
    if not own_server:
        return ()
    if slots:
        advice.append(
            Advice(
                f"--concurrency {slots.total_slots}",
                "the server answers so many requests at a time",
            )
        )
    else:
        advice.append(
            Advice(
                "--concurrency 1", "the server doesn't say how many requests it answers at a time"
            )
        )
    longest = context.max_output_tokens
    if slots and slots.context < DEBATE_TOKENS:
        why = f"a slot has {slots.context:,}; a debate takes up to {DEBATE_TOKENS:,}, prompt and answer"
        advice.append(Advice(f"the server's context to {DEBATE_TOKENS:,} tokens a slot", why))
    if slots and (room := max(256, slots.context // 4)) < longest:
        advice.append(
            Advice(f"--set max_output_tokens={room}", "the rest of the slot is for the prompt")
        )
        longest = room
    speed = exam.tokens_per_second
    if speed and longest / speed > context.timeout:
        seconds = math.ceil(longest / speed / 60) * 60
        advice.append(
            Advice(
                f"--set timeout={seconds}",
                f"an answer of {longest:,} tokens takes so long at this speed",
            )
        )
    return tuple(advice)
