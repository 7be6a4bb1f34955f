"""`tribunal judge`: one post to its verdict."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from commands.errors import STATUS, ending_well

EPILOG = """\b
Exit status: 0 a verdict, 2 wrong usage or input, 3 the model refused, 4 a technical failure."""


def judge(
    text: Annotated[
        str | None, typer.Argument(help="The text of the post; without it, or as -, it is read from standard input.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="The image of the post: a path, a URL, a data URI, or - for standard input.")
    ] = None,
    graph: Annotated[
        str,
        typer.Option(
            help="arcade, multiround, predict, antihate, mv_debate, baseline, self_consistency or symmetric_debate "
            "(tribunal graphs draws them)."
        ),
    ] = "arcade",
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
    samples: Annotated[int | None, typer.Option(help="Of self_consistency: the most draws. Default: 5.")] = None,
    agents: Annotated[int | None, typer.Option(help="Of symmetric_debate: how many debate. Default: 4.")] = None,
    perspectives: Annotated[
        str | None, typer.Option(help="Of predict: the perspectives to hear, by name or TOML file, with commas.")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="Of predict: full (default), round-1-only, majority, single, base, leave-out, criterion-only or "
            "examples-only. Of antihate: full, no-knowledge, no-search, no-details or zero-shot."
        ),
    ] = None,
    leave_out: Annotated[str | None, typer.Option(help="Of predict: a perspective that is not heard.")] = None,
    embedding: Annotated[
        str | None, typer.Option(help="Of predict: the embedding that the indexes must be built with.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="Of antihate: duckduckgo (default), searxng, langchain:NAME or none; several, with commas, in turn "
            "when one fails; replay:FILE, a recorded run."
        ),
    ] = None,
    searxng_url: Annotated[
        str | None, typer.Option(help="Of antihate: a SearXNG server. Default: SEARXNG_URL.")
    ] = None,
    record: Annotated[str | None, typer.Option(help="Of antihate: the SQLite file of the evidence record.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Of a replay: ask the model anew over the recorded pages.")
    ] = False,
    max_turns: Annotated[int | None, typer.Option(help="Of antihate: turns of searching. Default: 3.")] = None,
    max_pages: Annotated[int | None, typer.Option(help="Of antihate: pages read a turn. Default: 6.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Of antihate: seconds of research. Default: 600.")] = None,
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
    post_id: Annotated[str | None, typer.Option("--id", help="What to call the post in the record.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    trace: Annotated[bool, typer.Option(help="Show every prompt and raw answer, on standard error.")] = False,
) -> None:
    """Decide whether a post is hate speech, and show why."""
    with ending_well():
        settings: dict[str, Any] = {
            "task": task,
            "model": model,
            "aux_model": aux_model,
            "judge_model": judge_model,
            "seats": _pairs(seat, "seat", "NAME=PROVIDER:MODEL"),
            "temperatures": _numbers(_pairs(temperature, "temperature", "NAME=NUMBER")),
            "line_up": line_up,
            "views": [name.strip() for name in views.split(",")] if views else None,
            "tau": tau,
            "top_k": top_k,
            "reflection_mode": reflection,
            "history": history,
            "samples": samples,
            "agents": agents,
            "perspectives": [name.strip() for name in perspectives.split(",")] if perspectives else None,
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
            "trace": trace or None,
        }
        words, picture = _post(text, image)
        given = {name: value for name, value in settings.items() if value not in (None, {})}
        outcome = _run(words, picture, graph, given, post_id, as_json, trace)
    raise typer.Exit(STATUS[outcome])


def _run(
    text: str | None,
    image: str | None,
    graph: str,
    settings: dict[str, Any],
    post_id: str | None,
    as_json: bool,
    trace: bool,
) -> str:
    import asyncio
    import json

    from commands.show import Courtroom
    from graphs.session import hear
    from nodes.context import checked

    context = checked(settings)
    room = Courtroom(quiet=as_json, trace=trace)
    with room:
        record = asyncio.run(hear(text, image, graph=graph, context=context, post_id=post_id, listen=room.listen))
    if as_json:
        sys.stdout.write(json.dumps(record.dump(), ensure_ascii=False) + "\n")
    else:
        room.close(record)
    return record.outcome


def _post(text: str | None, image: str | None) -> tuple[str | None, str | None]:
    """The text, and a reference to the image, with standard input read where it stands for one of them."""
    from nodes.errors import BadInput
    from nodes.image import keep, keep_bytes

    if image == "-":
        if text == "-":
            raise BadInput("image: -: standard input can't be the text as well; give one of them another way")
        return text, keep_bytes(sys.stdin.buffer.read(), "standard input")
    if image is not None and image.startswith("data:"):
        image = keep(image)
    if text == "-" or (text is None and image is None and not sys.stdin.isatty()):
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"text: standard input is not UTF-8: {error}; convert it") from error
    return text, image


def _pairs(given: list[str] | None, option: str, form: str) -> dict[str, str]:
    from nodes.errors import BadInput

    pairs = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise BadInput(f"{option}: {each!r}: give it as {form}")
        pairs[name.strip()] = value.strip()
    return pairs


def _numbers(pairs: dict[str, str]) -> dict[str, float]:
    from nodes.errors import BadInput

    numbers = {}
    for name, value in pairs.items():
        try:
            numbers[name] = float(value)
        except ValueError as error:
            raise BadInput(f"temperature: {name}={value}: {value!r} is not a number") from error
    return numbers
