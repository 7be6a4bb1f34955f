"""A case as a person watches it: the debate as it happens, then the verdict, what it rests on and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.status import Status
from rich.text import Text

from tribunal.schema import JSON, Opinion, Record, Turn
from tribunal.seats import VIEWS
from tribunal.text import visible

_STAGES = {
    "scan": "rapid scan",
    "indictment": "indictment",
    "investigation": "investigation",
    "argument": "argument",
    "rebuttal": "defence",
    "opening": "argument",
    "response": "answer",
    "answer": "answer",
    "score": "scores",
    "reflection": "reflection",
    "revision": "answer after the reflection",
}
_COLOURS = {
    "gatekeeper": "cyan",
    "prosecutor": "red",
    "defender": "green",
    "debater:hate": "red",
    "debater:not_hate": "green",
}
_SPEAKERS = {"debater:hate": "Debater for hate", "debater:not_hate": "Debater for non-hate"}
_SIDES = {"YES": "red", "NO": "green"}


class Courtroom:
    """Prints events as they come. `quiet` keeps standard output empty; `trace` shows prompts on standard error."""

    def __init__(self, *, quiet: bool, trace: bool) -> None:
        self._out = Console(quiet=quiet, highlight=False)
        self._aside = Console(stderr=True, highlight=False)
        self._trace = trace
        self._status: Status | None = None
        if self._aside.is_terminal and not quiet:
            self._status = self._aside.status("taking the post in …")

    def __enter__(self) -> Courtroom:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def listen(self, event: JSON) -> None:
        """Take one event of the graph's stream."""
        match event["event"]:
            case "asking" if self._status:
                self._status.update(f"{event['role']} ({event['model']}) …")
            case "turn":
                self._turn(Turn.model_validate({key: value for key, value in event.items() if key != "event"}))
            case "round":
                self._say(_round(event), None)
            case "opinion":
                self._opinion(Opinion.model_validate({key: value for key, value in event.items() if key != "event"}))
            case "plan" if event["thought"]:
                self._head(f"Turn {event['turn']}: thought", "cyan")
                self._say(event["thought"], None)
            case "queries":
                self._head(f"Turn {event['turn']}: queries", "cyan")
                for query in event["queries"]:
                    self._say(query, None)
            case "search":
                self._say("", f"{event['hits']} pages found that were not tried before")
            case "page":
                self._head(f"Page: {event['title'] or event['url']}", "blue")
                self._say("", event["error"] or event["url"])
            case "evidence":
                self._say(f"{event['id']} {event['stance']}: “{event['passage']}”", None)
            case "judgement":
                self._head(f"Judgement so far: {event['judgement']}", "magenta")
                self._say(event["reasoning"], None)
            case "sufficiency":
                self._say("enough" if event["sufficient"] else f"not enough: {event['missing']}", None)
            case "triage":
                sure = f"{event['category']}, confidence {event['confidence']:.2f}"
                self._head(f"First look: {sure}{'' if event['clear'] else ': not clear, so it goes to trial'}", "cyan")
                self._say("", event["explanation"])
            case "rest":
                self._say("", f"no cue is in dispute: the sides rest after round {event['round']} of {event['rounds']}")
            case "call" if self._trace:
                self._call(event)

    def close(self, record: Record) -> None:
        """Print the outcome."""
        self._out.print(_outcome(record))
        for warning in _each_cause_once(record.warnings):
            self._out.print(Text(f"note: {visible(warning)}", style="yellow"))
        self._out.print(Text(_cost(record), style="dim"))

    def _turn(self, turn: Turn) -> None:
        colour = _COLOURS.get(turn.seat) or _SIDES.get(turn.stance or "", "white")
        when = f", round {turn.round}" if turn.round else ""
        speaker = _SPEAKERS.get(turn.seat) or _one_of_a_kind(turn.seat)
        self._out.print(Text(visible(f"{speaker}{when}: {_STAGES[turn.stage]}"), style=f"bold {colour}"))
        for cue in turn.cues:
            self._say(f"{cue.id} {cue.type} · {cue.whom} · {cue.category}: “{cue.claim}”", cue.justification)
        for argument in turn.arguments:
            self._say(f"{argument.cue_id} {argument.says}: “{argument.claim}”", argument.argument)
        if turn.text:
            stance = f"{turn.stance}s" if turn.stage == "response" else turn.stance
            self._say(f"{stance}: {turn.text}" if turn.stance else turn.text, None)
        elif not turn.cues and not turn.arguments:
            self._say("nothing", None)

    def _head(self, words: str, colour: str) -> None:
        self._out.print(Text(visible(words), style=f"bold {colour}"))

    def _opinion(self, opinion: Opinion) -> None:
        colour = "red" if opinion.stance == "hate" else "green"
        self._out.print(Text(f"Perspective {opinion.id}: {opinion.label_name}", style=f"bold {colour}"))
        self._say(opinion.reason, None)
        for example in opinion.examples:
            self._say("", f"{example.similarity:.2f} {example.label_name}: {example.text}")

    def _say(self, first: str, second: str | None) -> None:
        if first:
            self._out.print(Padding(Text(visible(first)), (0, 0, 0, 2)))
        if second:
            self._out.print(Padding(Text(visible(second), style="dim"), (0, 0, 0, 5)))

    def _call(self, event: JSON) -> None:
        self._aside.print(Rule(f"{event['role']} · {event['model']} · temperature {event['temperature']}"))
        for speaker, words in event["prompt"]:
            self._aside.print(Text(f"[{speaker}]", style="bold"))
            self._aside.print(Text(visible(words)))
        self._aside.print(Text("[answer]", style="bold"))
        self._aside.print(Text(visible(event["answer"])))


def _one_of_a_kind(seat: str) -> str:
    """A seat in words: a view by its title, others by their kind and name."""
    kind, _, name = seat.partition(":")
    if kind == "view" and name in VIEWS:
        return VIEWS[name]
    return f"{kind.capitalize()} {name}".strip()


def _round(entry: JSON) -> str:
    """What a round of views came to."""
    if entry["consensus"]:
        return f"round {entry['round']}: all agree on {next(iter(entry['answers'].values()))}"
    gate = ""
    if "delta" in entry:
        gate = f"Δ = {entry['delta']:.4g}, the second answers {'stand' if entry['adopted'] else 'are not adopted'}; "
    return f"round {entry['round']}: {gate}best: {entry['best']}"


def _each_cause_once(warnings: Sequence[str]) -> Iterator[str]:
    """Warnings as they are shown: what several seats had the same of, such as a server's words, is in full once."""
    seen: set[str] = set()
    for warning in warnings:
        parts = warning.split(": ")
        tails = [": ".join(parts[first:]) for first in range(1, len(parts))]
        same = next((tail for tail in tails if tail in seen), None)
        yield warning if same is None else f"{warning.removesuffix(same)}the same"
        seen.update(tail for tail in tails if len(tail) > _A_CAUSE)


_A_CAUSE = 40


def _outcome(record: Record) -> Any:
    if record.outcome == "verdict":
        title = visible(record.category or "").upper()  # so is a category that isn't hate
        if record.task == "hate" and (record.hateful or not record.label):
            title = "HATE SPEECH" if record.hateful else "NOT HATE SPEECH"
        style = "red" if record.label else "green"
        first = f"{record.category} (label {record.label}, {record.scheme} scheme, policy {record.policy['name']})"
    elif record.outcome == "pending":
        title, style = "PENDING", "yellow"
        court = record.review.court if record.review else {}
        first = f"the court: {court.get('category') or court.get('outcome')}; tribunal review show {record.thread}"
    else:
        fault = record.fault or {}
        title = "REFUSED" if record.outcome == "refusal" else "FAILED"
        style = "yellow"
        first = f"no verdict: {fault.get('seat')} ({fault.get('model')}): {fault.get('kind')}"
    track = f"{record.graph}, {record.track.replace('_', ' ')}" if record.track else record.graph
    if record.rounds:
        track += f", {record.rounds} round{'s' if record.rounds > 1 else ''}"
    if record.confidence is not None:
        first += f", confidence {record.confidence:.2f}{', uncertain' if record.uncertain else ''}"
    if len(record.votes) > 1:
        agreeing = sum(vote.category == record.category for vote in record.votes)
        track += f", {agreeing} of {len(record.votes)} votes"
    cited = {each for step in record.steps for each in step.evidence}
    sources = [Text(f"[{each.id}] {each.url}", style="dim") for each in record.evidence if each.id in cited]
    body = Group(
        Text(first, style="bold"), Text(track, style="dim"), Text(""), Text(visible(record.explanation)), *sources
    )
    if record.review and record.review.action:
        done, court = record.review, record.review.court.get("category") or record.review.court["outcome"]
        how = "accepted" if done.action == "accept" else f"decided against the court ({court})"
        body.renderables.append(Text(f"{how} by {visible(done.reviewer or 'a reviewer')} at {done.at}", style="dim"))
    return Panel(body, title=Text(title), border_style=style, padding=(0, 1))


def _cost(record: Record) -> str:
    usage, kept = record.usage, sum(call.cached for call in record.calls)
    cost = (
        f"{usage.calls} calls, {usage.prompt_tokens} + {usage.completion_tokens} tokens, {usage.seconds:.2f} s in calls"
    )
    saved = [
        f"{each.id.replace('_', ' ')} saved {f'{each.calls} calls' if each.calls else f'{each.tokens} tokens'}"
        for each in record.saved
    ]
    return f"{record.post_id} · {', '.join([cost, *([f'{kept} answers from the cache'] if kept else []), *saved])}"
