"""A case as a person watches it in a terminal: the debate as it happens, then what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.status import Status
from rich.text import Text

from tribunal.commands.printing import print_template, template_paragraphs
from tribunal.core.text import make_visible, one_line
from tribunal.explanations.case_drawing import line_of_case, short_details
from tribunal.explanations.case_view import CaseView
from tribunal.explanations.quotations import MarkedCue, quoted_spans
from tribunal.process.terminal import screen
from tribunal.schema import JSON, Cue, Record, Turn

_COLOURS = {
    "gatekeeper": "cyan",
    "prosecutor": "red",
    "defender": "green",
    "debater:hate": "red",
    "debater:not_hate": "green",
}
_SIDES = {"YES": "red", "NO": "green"}
_TONES = {"hate": "red", "other": "green", "open": "yellow"}
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
            self._status = self._aside.status(
                "reading the post …", spinner="line" if plain else "dots"
            )

    def __enter__(self) -> CasePrinter:
        """Show that something is going on."""
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear that away."""
        if self._status:
            self._status.stop()

    def listen(self, event: JSON) -> None:
        """Print one event of the graph's stream."""
        match (
            event.get("event") if isinstance(event, dict) else None
        ):  # a piece of one's own may stream anything
            case "asking" if self._status:
                self._status.update(Text(f"{event['role']} ({event['model']}) …"))
            case "turn":
                self._print_turn(
                    Turn.model_validate(
                        {key: value for key, value in event.items() if key != "event"}
                    )
                )
            case "call" if self._trace:
                self._print_call(event)
            case str(kind):
                if kind == "evidence":
                    self._passages.add(event["id"])
                self._print("event", event=event)

    def print_outcome(self, view: CaseView, cues: Sequence[Cue] = ()) -> None:
        """Print what wasn't printed as it came, then the outcome, what it rests on and what it cost.

        Args:
            view: the case.
            cues: those that mark words of the post, where it wasn't printed yet.
        """
        self._print_post(cues)
        values: dict[str, Any] = {"case": view, "details": short_details(view)}
        self._print("case", part="findings", shown=self._passages, **values)
        body = Group(*template_paragraphs("case", part="outcome", **values))
        title = make_visible(view.title)
        colour = _TONES[view.tone]
        if self._out.is_terminal:
            self._out.print(Panel(body, title=Text(title), border_style=colour, padding=(0, 1)))
        else:  # no box, which is made of blanks at the end of every line
            self._out.print(Text(one_line(title), style=f"bold {colour}"))
            self._out.print(Padding(body, (0, 0, 0, 2)))
        self._print("case", part="end", case=view)

    def _print(self, template: str, **values: Any) -> None:
        """Print a text, unless standard output is to stay empty."""
        if not self._out.quiet:
            print_template(template, wrapped=True, line_of_case=line_of_case, **values)

    def _print_turn(self, turn: Turn) -> None:
        """Print a turn; of a cue that was shown before, the id alone."""
        if (
            turn.cues and turn.stage != "scan"
        ):  # the gatekeeper's cues are its own; the prosecutor's are the case's
            self._print_post(turn.cues)
        before = dict(self._claims)
        self._claims |= {cue.id: cue for cue in turn.cues}
        self._print(
            "turn",
            turn=turn,
            colour=_COLOURS.get(turn.seat) or _SIDES.get(turn.stance or "", "white"),
            cues=[(cue, before.get(cue.id) == cue) for cue in turn.cues],
            quoted=self._claims,
        )

    def _print_post(self, cues: Iterable[Cue]) -> None:
        """Print the post, the first time alone."""
        if self._post and self._post.strip():
            self._out.print(Text("Post", style="bold blue"))
            self._out.print(Padding(mark_post(self._post.strip(), cues), (0, 0, 0, 2)))
        self._post = None

    def _print_call(self, event: JSON) -> None:
        """Print a prompt and its answer on standard error."""
        self._aside.print(
            Rule(f"{event['role']} · {event['model']} · temperature {event['temperature']}")
        )
        for who, words in [
            *((f"[{who}]", words) for who, words in event["prompt"]),
            ("[answer]", event["answer"]),
        ]:
            self._aside.print(Text(who, style="bold"))
            self._aside.print(Text(make_visible(words)))


def print_record(record: Record, view: CaseView, post: str | None) -> None:
    """Print a case that is over: the post, what was said and found, and the outcome."""
    with CasePrinter(quiet=False, trace=False, post=post) as printer:
        print_template("case", wrapped=True, part="earlier", case=view)
        for turn in record.transcript:
            printer.listen({"event": "turn", **turn.dump()})
        for opinion in record.opinions:
            printer.listen({"event": "opinion", **opinion.dump()})
        for each in record.evidence:
            printer.listen({"event": "evidence", **each.dump()})
        printer.print_outcome(view, record.cues)


def mark_post(post: str, cues: Iterable[Cue]) -> Text:
    """Return the post with the words that a cue quotes as `[C1 these words]`, underlined where a terminal can.

    Args:
        post: its words.
        cues: those of the case. One that quotes no words of the post marks nothing.
    """
    marked = [MarkedCue(cue, number, quoted_spans(cue, post)) for number, cue in enumerate(cues)]
    text = Text()
    open_until = list[int]()
    at = 0

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
