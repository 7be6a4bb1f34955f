"""The options of the model and the graph, declared once: of `tribunal judge`, `eval` and `batch`, and what they set."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

Graph = Annotated[
    str,
    typer.Option(
        help="tribunal, arcade, multiround, predict, antihate, mv_debate, baseline, self_consistency or "
        "symmetric_debate (tribunal graphs draws them), or a pipeline of your own, as file.py:graph."
    ),
]


def _settings(
    task: Annotated[
        str | None,
        typer.Option(help="hate (default), sarcasm or misinformation; of mv_debate and the three graphs after it."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model of every seat, as provider:model; several, separated by commas, are asked in turn when one "
            "refuses or fails. Default: TRIBUNAL_MODEL, else the offline rehearsal model."
        ),
    ] = None,
    aux_model: Annotated[str | None, typer.Option(help="The model of every seat but the judge's.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="The model of the judge.")] = None,
    seat: Annotated[
        list[str] | None, typer.Option(metavar="NAME=MODEL", help="A model for one seat; may be given again.")
    ] = None,
    temperature: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="A temperature for one seat in place of the published one."),
    ] = None,
    line_up: Annotated[
        str | None, typer.Option(help="A TOML file with [seats], [temperatures] and views; options here beat it.")
    ] = None,
    views: Annotated[
        str | None, typer.Option(help="Of mv_debate: the views that debate, with commas. Default: all.")
    ] = None,
    tau: Annotated[
        float | None, typer.Option(help="Of mv_debate: the gain from which a reflection is adopted. Default: 0.1.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Of mv_debate: how many answer again. Default: half the views.")
    ] = None,
    reflection: Annotated[str | None, typer.Option(help="Of mv_debate: gated (default), none or always.")] = None,
    history: Annotated[
        str | None, typer.Option(help="Of mv_debate: best (default) or all answers of a round are kept.")
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Of self_consistency: the most draws. Default: 5.")] = None,
    agents: Annotated[int | None, typer.Option(help="Of symmetric_debate: how many debate. Default: 4.")] = None,
    perspectives: Annotated[
        str | None,
        typer.Option(
            help="The perspectives to hear: names or TOML files, with commas; all that are built; or none. Default: "
            "none in tribunal, five small examples in predict."
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Of tribunal: look the post up on the web.")] = False,
    early_exit: Annotated[
        bool | None,
        typer.Option(help="End a deep dive once no cue is in dispute. Default: on in tribunal, off elsewhere."),
    ] = None,
    triage: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Of tribunal: a first look by this model; clear posts skip the trial."),
    ] = None,
    triage_confidence: Annotated[
        float | None, typer.Option(help="The confidence from which a first look counts as clear. Default: 0.9.")
    ] = None,
    judge_draws: Annotated[
        int | None, typer.Option(help="Ask the judge up to so many times, and count. Default: 1.")
    ] = None,
    draw_temperature: Annotated[
        float | None, typer.Option(help="The temperature of every draw after the first. Default: 0.7.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|FILE",
            help="The confidence below which a verdict is uncertain, or a file of tribunal fit. Default: 0.75 where "
            "the judge is asked for one.",
        ),
    ] = None,
    review: Annotated[
        bool,
        typer.Option("--review", help="Of tribunal: leave uncertain and refused cases to a person (tribunal review)."),
    ] = False,
    review_rule: Annotated[
        str | None,
        typer.Option(help="Cases that a person sees besides: hateful, all, or categories, with commas."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="Of predict: full (default), round-1-only, majority, single, base, leave-out, criterion-only or "
            "examples-only. Of antihate: full, no-knowledge, no-search, no-details or zero-shot."
        ),
    ] = None,
    leave_out: Annotated[str | None, typer.Option(help="A perspective that is not heard.")] = None,
    embedding: Annotated[str | None, typer.Option(help="The embedding that the indexes must be built with.")] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="duckduckgo (default), searxng, langchain:NAME or none; several, with commas, in turn "
            "when one fails; replay:FILE, a recorded run."
        ),
    ] = None,
    searxng_url: Annotated[str | None, typer.Option(help="A SearXNG server. Default: SEARXNG_URL.")] = None,
    record: Annotated[str | None, typer.Option(help="The SQLite file of the evidence record.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Of a replay: ask the model anew over the recorded pages.")
    ] = False,
    max_turns: Annotated[int | None, typer.Option(help="Of the web: turns of searching. Default: 3.")] = None,
    max_pages: Annotated[int | None, typer.Option(help="Of the web: pages read a turn. Default: 6.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Of the web: seconds of research. Default: 600.")] = None,
    rounds: Annotated[int | None, typer.Option(help="The most rounds of a debate, 1 to 10. Default: 3.")] = None,
    scheme: Annotated[str | None, typer.Option(help="fine (the policy's categories, default) or binary.")] = None,
    policy: Annotated[str | None, typer.Option(help="The policy: a TOML file, or the task's own (default).")] = None,
    max_calls: Annotated[
        int | None, typer.Option(help="Requests the post may cost before only the judge is asked.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens the post may cost before only the judge is asked.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one request may take. Default: 120.")] = None,
    cache: Annotated[
        str | None, typer.Option(help="A SQLite file of answers, from which equal calls are served.")
    ] = None,
) -> dict[str, Any]:
    """What the options set: the fields of `Context` that were given.

    Raises:
        BadInput: an option is not of its form.
    """
    settings: dict[str, Any] = {
        "task": task,
        "model": model,
        "aux_model": aux_model,
        "judge_model": judge_model,
        "seats": pairs(seat, "seat", "NAME=PROVIDER:MODEL"),
        "temperatures": _numbers(pairs(temperature, "temperature", "NAME=NUMBER")),
        "line_up": line_up,
        "views": _names(views),
        "tau": tau,
        "top_k": top_k,
        "reflection_mode": reflection,
        "history": history,
        "draws": draws,
        "agents": agents,
        "perspectives": _names(perspectives),
        "web": web or None,
        "early_exit": early_exit,
        "triage": triage,
        "triage_confidence": triage_confidence,
        "judge_draws": judge_draws,
        "draw_temperature": draw_temperature,
        **_threshold(threshold),
        "review": review or None,
        "review_rule": _names(review_rule),
        "mode": mode,
        "leave_out": leave_out,
        "embedding": embedding,
        "search": search,
        "searxng_url": searxng_url,
        "record": record,
        "fresh": fresh or None,
        "max_turns": max_turns,
        "max_pages": max_pages,
        "max_seconds": max_seconds,
        "rounds": rounds,
        "scheme": scheme,
        "policy": policy,
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "timeout": timeout,
        "cache": cache,
    }
    return {name: value for name, value in settings.items() if value not in (None, {})}


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options beside its own; it is given what they set as `settings`."""
    from tribunal.commands.errors import ending_well

    own = inspect.signature(command, eval_str=True).parameters
    shared = inspect.signature(_settings, eval_str=True).parameters

    def with_options(**given: Any) -> None:
        with ending_well():
            settings = _settings(**{name: given.pop(name) for name in shared})
        command(**given, settings=settings)

    parameters = [each for name, each in own.items() if name != "settings"] + list(shared.values())
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    with_options.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


def _names(given: str | None) -> list[str] | None:
    return [name.strip() for name in given.split(",")] if given else None


def _threshold(given: str | None) -> dict[str, Any]:
    """A number, or a file that holds one."""
    if given is None:
        return {}
    try:
        return {"threshold": float(given)}
    except ValueError:
        return {"threshold_file": given}


def pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    from tribunal.errors import BadInput

    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadInput(f"{option}: {each!r}: give it as {form}")
        pairs[name.strip()] = value.strip()
    return pairs


def _numbers(pairs: dict[str, str]) -> dict[str, float]:
    from tribunal.errors import BadInput

    numbers = {}
    for name, value in pairs.items():
        try:
            numbers[name] = float(value)
        except ValueError as error:
            raise BadInput(f"temperature: {name}={value}: {value!r} is not a number") from error
    return numbers
