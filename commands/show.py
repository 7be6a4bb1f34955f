"""A case as a person watches it in a terminal: the debate as it happens, then what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType

from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.status import Status
from rich.text import Text

from tribunal.cases.case_drawing import TerminalLine, draw_for_terminal, line_of_case
from tribunal.cases.case_view import CaseView
from tribunal.cases.quotations import MarkedCue, quoted_spans
from tribunal.schema import JSON, Argument, Cue, Opinion, Record, Turn
from tribunal.terminal import screen
from tribunal.text import make_visible, one_line

_COLOURS = {
    "gatekeeper": "cyan",
    "prosecutor": "red",
    "defender": "green",
    "debater:hate": "red",
    "debater:not_hate": "green",
}
_SIDES = {"YES": "red", "NO": "green"}
_TONES = {"hate": "red", "other": "green", "open": "yellow"}
_STYLES = {"heading": "bold blue", "bold": "bold", "dim": "dim", "warning": "bold yellow", "plain": ""}
_MARK = "underline"


class CasePrinter:
    """Prints events as they come, and the outcome at the end.

    The post stands before what the prosecutor says about it; else before the outcome.

    Args:
        quiet: keep standard output empty.
        trace: show prompts on standard error.
        post: the words of the post; without them it isn't printed.
    """

    def __init__(self, *, quiet: bool, trace: bool, post: str | None = None) -> None:
        """Prepare the screens; nothing is printed yet."""
        self._out = screen(quiet=quiet)
        self._post = post
        self._claims: dict[str, Cue] = {}  # what was quoted in full
        self._passages: set[str] = set()
        self._aside = screen(aside=True)
        self._trace = trace
        self._status: Status | None = None
        if self._aside.is_terminal and not quiet:
            plain = self._aside.options.ascii_only
            self._status = self._aside.status("reading the post …", spinner="line" if plain else "dots")

    def __enter__(self) -> CasePrinter:
        """Show that something is going on."""
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear that away."""
        if self._status:
            self._status.stop()

    def listen(self, event: JSON) -> None:
        """Print one event of the graph's stream."""
        match event.get("event") if isinstance(event, dict) else None:  # a piece of one's own may stream anything
            case "asking" if self._status:
                self._status.update(Text(f"{event['role']} ({event['model']}) …"))
            case "turn":
                self._print_turn(Turn.model_validate({key: value for key, value in event.items() if key != "event"}))
            case "round":
                self._print_words(line_of_case("views", event))
            case "opinion":
                fields = {key: value for key, value in event.items() if key != "event"}
                self._print_opinion(Opinion.model_validate(fields))
            case "plan" if event["thought"]:
                self._print_head(f"Turn {event['turn']}: thought", "cyan")
                self._print_words(event["thought"])
            case "queries":
                self._print_head(f"Turn {event['turn']}: queries", "cyan")
                for query in event["queries"]:
                    self._print_words(query)
            case "search":
                self._print_words("", f"{event['hits']} new pages found")
            case "page":
                self._print_head(f"Page: {event['title'] or event['url']}", "blue")
                self._print_words("", event["error"] or event["url"])
            case "evidence":
                self._passages.add(event["id"])
                self._print_words(f"{event['id']} {event['stance']}: “{event['passage']}”")
            case "judgement":
                self._print_head(f"Judgement so far: {event['judgement']}", "magenta")
                self._print_words(event["reasoning"])
            case "sufficiency":
                self._print_words("enough" if event["sufficient"] else f"not enough: {event['missing']}")
            case "triage":
                self._print_screening(event)
            case "rest":
                self._print_words(
                    "", f"no cue is in dispute: stopped after round {event['round']} of {event['rounds']}"
                )
            case "call" if self._trace:
                self._print_call(event)

    def print_outcome(self, view: CaseView, cues: Sequence[Cue] = ()) -> None:
        """Print what wasn't printed as it came, then the outcome, what it rests on and what it cost.

        Args:
            view: the case.
            cues: those that mark words of the post, where it wasn't printed yet.
        """
        self._print_post(cues)
        for line in draw_for_terminal(view, "findings", shown=self._passages):
            self._out.print(_as_paragraph(line))
        body = Group(*(_as_paragraph(line) for line in draw_for_terminal(view, "outcome")))
        title, colour = make_visible(view.title), _TONES[view.tone]
        if self._out.is_terminal:
            self._out.print(Panel(body, title=Text(title), border_style=colour, padding=(0, 1)))
        else:  # no box, which is made of blanks at the end of every line
            self._print_head(title, colour)
            self._out.print(Padding(body, (0, 0, 0, 2)))
        for warning in view.warnings:
            self._out.print(Text(f"note: {one_line(make_visible(warning))}", style="yellow"))
        self._out.print(Text(one_line(make_visible(view.cost.line)), style="dim"))

    def _print_turn(self, turn: Turn) -> None:
        """Print a turn; of a cue that was shown before, the id alone."""
        if turn.cues and turn.stage != "scan":  # the gatekeeper's cues are its own; the prosecutor's are the case's
            self._print_post(turn.cues)
        self._print_head(line_of_case("turn", turn), _COLOURS.get(turn.seat) or _SIDES.get(turn.stance or "", "white"))
        for cue in turn.cues:
            self._print_cue(cue)
        for argument in turn.arguments:
            self._print_argument(argument)
        if turn.text:
            stance = f"{turn.stance}s" if turn.stage == "response" else turn.stance
            self._print_words(f"{stance}: {turn.text}" if turn.stance else turn.text)
        elif not turn.cues and not turn.arguments:
            self._print_words("nothing")

    def _print_post(self, cues: Iterable[Cue]) -> None:
        """Print the post, the first time alone."""
        if self._post and self._post.strip():
            self._print_head("Post", "blue")
            self._out.print(Padding(mark_post(self._post.strip(), cues), (0, 0, 0, 2)))
        self._post = None

    def _print_cue(self, cue: Cue) -> None:
        """Print a cue in full; only its id where it was shown before."""
        if self._claims.get(cue.id) == cue:
            self._print_words(f"{cue.id}, as above")
            return
        self._claims[cue.id] = cue
        self._print_words(line_of_case("cue", cue), cue.justification)

    def _print_argument(self, argument: Argument) -> None:
        """Print what is said about a cue; its claim only where it wasn't quoted before."""
        stance = f"{argument.cue_id} {argument.says}: "
        if argument.cue_id in self._claims:
            self._print_words(stance + argument.argument)
        else:
            self._print_words(stance + line_of_case("quoted", argument.claim), argument.argument)

    def _print_opinion(self, opinion: Opinion) -> None:
        """Print what a perspective says, with the examples that it saw."""
        self._print_head(
            f"Perspective {opinion.id}: {opinion.label_name}", "red" if opinion.stance == "hate" else "green"
        )
        self._print_words(opinion.reason)
        for example in opinion.examples:
            self._print_words("", f"{example.similarity:.2f} {example.label_name}: {example.text}")

    def _print_screening(self, event: JSON) -> None:
        """Print what the screening classifier decided."""
        confidence = event["confidence"]
        category = event["category"] or "no decision"  # one that was fitted may decline
        stated = "no confidence" if confidence is None else f"confidence {confidence:.2f}"
        unclear = "" if event["clear"] else "; not clear, so the debate follows"
        self._print_head(f"Screening: {category}, {stated}{unclear}", "cyan")
        self._print_words("", event["explanation"])

    def _print_head(self, words: str, colour: str) -> None:
        """Print a heading."""
        self._out.print(Text(one_line(make_visible(words)), style=f"bold {colour}"))

    def _print_words(self, first: str, second: str = "") -> None:
        """Print a paragraph, and a dimmer one below it."""
        if first:
            self._out.print(Padding(Text(make_visible(first)), (0, 0, 0, 2)))
        if second:
            self._out.print(Padding(Text(make_visible(second), style="dim"), (0, 0, 0, 5)))

    def _print_call(self, event: JSON) -> None:
        """Print a prompt and its answer on standard error."""
        self._aside.print(Rule(f"{event['role']} · {event['model']} · temperature {event['temperature']}"))
        for who, words in event["prompt"]:
            self._aside.print(Text(f"[{who}]", style="bold"))
            self._aside.print(Text(make_visible(words)))
        self._aside.print(Text("[answer]", style="bold"))
        self._aside.print(Text(make_visible(event["answer"])))


def print_record(record: Record, view: CaseView, post: str | None) -> None:
    """Print a case that is over: the post, what was said and found, and the outcome."""
    with CasePrinter(quiet=False, trace=False, post=post) as printer:
        for trial in view.earlier_trials:
            screen().print(Text(one_line(make_visible(f"{trial.title}: {trial.question}"))))
        for turn in record.transcript:
            printer.listen({"event": "turn", **turn.dump()})
        for opinion in record.opinions:
            printer.listen({"event": "opinion", **opinion.dump()})
        for each in record.evidence:
            printer.listen({"event": "evidence", **each.dump()})
        printer.print_outcome(view, record.cues)


def _as_paragraph(line: TerminalLine) -> Padding:
    """Return a line of the terminal's template as rich prints it."""
    return Padding(Text(line.text, style=_STYLES[line.style]), (0, 0, 0, line.indent))


def mark_post(post: str, cues: Iterable[Cue]) -> Text:
    """Return the post with the words that a cue quotes as `[C1 these words]`, underlined where a terminal can.

    Args:
        post: its words.
        cues: those of the case. One that quotes no words of the post marks nothing.
    """
    marked = [MarkedCue(cue, number, quoted_spans(cue, post)) for number, cue in enumerate(cues)]
    text, open_until, at = Text(), list[int](), 0

    def write(until: int) -> None:
        nonlocal at
        text.append(make_visible(post[at:until]), _MARK if open_until else "")
        at = until

    def close() -> None:
        write(open_until[-1])
        open_until.pop()
        text.append("]")

    for (start, end), ids in _nest_spans(marked):
        while open_until and open_until[-1] <= start:
            close()
        write(start)
        text.append("[").append(f"{' '.join(map(make_visible, ids))} ", "bold")
        open_until.append(end)
    while open_until:
        close()
    write(len(post))
    return text


def _nest_spans(marked: Iterable[MarkedCue]) -> list[tuple[tuple[int, int], list[str]]]:
    """Return places with the ids of their cues, outer ones first; one that crosses another begins where that ends."""
    spans = [(start, end, each.cue.id) for each in marked for start, end in each.spans]
    ids_at: dict[tuple[int, int], list[str]] = {}
    for start, end, cue_id in sorted(spans, key=lambda each: (each[0], -each[1])):
        for first, last in sorted(ids_at):
            if first < start < last < end:
                start = last
        ids = ids_at.setdefault((start, end), [])
        if cue_id not in ids:
            ids.append(cue_id)
    return sorted(ids_at.items(), key=lambda each: (each[0][0], -each[0][1]))
