"""A case is drawn from its view: pages, Markdown, lines of a terminal, and the table of its trial."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, Template
from markupsafe import Markup

from tribunal.core.templates import make_template_environment
from tribunal.core.text import count_noun, escape_markdown, make_visible, one_line, parse_toml
from tribunal.core.times import format_date
from tribunal.explanations.case_view import (
    AuthorLetter,
    CaseView,
    ChipKind,
    SpokenTurn,
    StepRemark,
    StepRow,
    StepTable,
    ViewedCue,
    ViewedPost,
    ViewedTrial,
)
from tribunal.explanations.quotations import MarkedCue, find_spans, quotations_in, quoted_spans
from tribunal.schema import Argument, Cue, Turn
from tribunal.settings.names import VIEWS

# Details that short pictures (a terminal's, a notebook's) leave out, and those that the author of a post is told.
IN_FULL_ONLY = frozenset({
    "Categories", "Hash of the image", "Not needed", "Post", "Prompts", "Protocol", "Research", "Rounds of debate",
    "Shown to models", "System", "Task",
})  # fmt: skip
TO_AUTHORS = frozenset({"Case"})
CasePart = Literal["all", "post", "trial"]


def draw_fragment(
    picture: CaseView | AuthorLetter,
    *,
    prefix: str = "ex-",
    titled: bool = True,
    part: CasePart = "all",
) -> Markup:
    """Return a case, or a letter, as a part of a page of one's own.

    It has classes and no style of its own: put `stylesheet()` into a style sheet. It needs no script, and under a
    Content-Security-Policy no more than `style-src` for that sheet and, where it has an image as a data URI,
    `img-src data:`. Where a page holds several, the ids in each begin with a `prefix` of its own.

    Of a case one `part` may be drawn alone: the post, with nothing of it folded away; or the trial and all
    else but the verdict, each section of it folded away.
    """
    return Markup(_render(picture, "html", prefix=prefix, titled=titled, part=part))  # noqa: S704  # autoescaped


def draw_page(picture: CaseView | AuthorLetter) -> str:
    """Return a case, or a letter, as a page of its own: no script, no outside address, and it tells the browser so."""
    language = "en"
    heading = picture.title
    title = picture.title
    if isinstance(picture, AuthorLetter):
        language = picture.language
    else:
        heading = f"Explanation of {picture.case or picture.post.id}"
        title = f"{picture.title} – {heading}"
    return _template("page.html.jinja").render(
        language=language,
        title=one_line(title),
        heading=heading,
        style=Markup(_page_style()),  # noqa: S704  # our own files
        security=content_security_policy(),
        inside=draw_fragment(picture, titled=False),
    )


def draw_for_notebook(view: CaseView) -> str:
    """Return a case as a notebook shows it: no script, style sheet, image or link, so that it loads nothing."""
    return _template("notebook.html.jinja").render(case=view, details=short_details(view))


def draw_markdown(picture: CaseView | AuthorLetter) -> str:
    """Return a case, or a letter, as a Markdown document, in which a stranger's words are no markup."""
    return re.sub(r"\n{3,}", "\n\n", _render(picture, "md")).strip() + "\n"


def short_details(view: CaseView) -> list[tuple[str, str]]:
    """Return the details that a short picture has."""
    return [(name, value) for name, value in view.details if name not in IN_FULL_ONLY]


def stylesheet() -> str:
    """Return the styles of a fragment; every rule is one of `.ex`."""
    return _source("case.css")


def _page_style() -> str:
    return _source("page.css") + stylesheet()


@cache
def content_security_policy() -> str:
    """Return what a page is allowed, as it says itself: its own styles, and images that stand in it."""
    digest = base64.b64encode(hashlib.sha256(_page_style().encode()).digest()).decode()
    allowed = (
        "img-src data:",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(("default-src 'none'", *allowed))


def line_of_case(macro: str, *values: Any) -> str:
    """Return a line about a case in plain text, by the macro of `lines.jinja`."""
    return str(getattr(_environment("lines").get_template("lines.jinja").module, macro)(*values))


@cache
def fixed_texts(language: str) -> dict[str, Any] | None:
    """Return the fixed texts of letters in a language: a title and a text for each decision, and labels; or None."""
    texts = parse_toml(_source("letters.toml"))
    return texts.get(language) or texts.get(language.partition("-")[0])


def _render(picture: CaseView | AuthorLetter, kind: Literal["html", "md"], **values: Any) -> str:
    """Return a case or a letter by its template."""
    if isinstance(picture, CaseView):
        return _template(f"case.{kind}.jinja").render(case=picture, **values)
    texts = fixed_texts(picture.notice.language) if picture.notice else None
    label = str((fixed_texts(picture.language) or {}).get("case", ""))
    return _template(f"letter.{kind}.jinja").render(
        letter=picture, texts=texts, label_of_case=label, **values
    )


def format_day(day: date, tag: str) -> str:
    """Return a day as people of a language write it: 26. Mai 2027."""
    from babel.dates import format_date

    base = tag.partition("-")[0]
    return str(format_date(day, "long", locale="en_GB" if base == "en" else base))


def _template(name: str) -> Template:
    return _environment(name.split(".")[-2]).get_template(name)


@cache
def _environment(kind: str) -> Environment:
    """Return the environment of templates for HTML, Markdown (`md`) or single plain `lines`."""

    def escape(value: Any) -> Any:
        """Return a value with all of it visible, escaped for what is made; what is Markup already stays."""
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        if kind == "lines":  # whatever draws a line makes it visible, and escapes it
            return Markup(value)  # noqa: S704
        if kind == "html":
            return make_visible(value)  # Jinja escapes it then
        return Markup(escape_markdown(one_line(value)))  # noqa: S704  # escaped here

    made = make_template_environment(_source, escape)
    made.globals |= {"count_noun": count_noun, "format_date": format_date}
    made.globals |= {"view_titles": VIEWS, "day": format_day}
    made.filters |= {"block": _markdown_block, "cell": _markdown_cell, "marked": _markdown_post}
    return made


@cache
def _source(name: str) -> str:
    """Return a file of the templates, as text."""
    return files(__package__).joinpath("templates", name).read_text("utf-8")


def _markdown_block(text: str) -> Markup:
    """Return somebody else's words as a quotation that keeps their line breaks."""
    return Markup("\n".join(f"> {escape_markdown(line)}  " for line in text.split("\n")))  # noqa: S704  # escaped here


def _markdown_cell(text: str) -> Markup:
    """Return a cell of a table."""
    return Markup(escape_markdown(one_line(text)) or "–")  # noqa: S704  # escaped here


def _markdown_post(post: ViewedPost) -> Markup:
    """Return a post's text as a quotation, with what a cue quotes in bold and the cues' numbers after it."""
    words = "".join(
        (_bold(part.text) if part.cues else escape_markdown(part.text))
        + "".join(f" \\[{number}\\]" for number in part.ends)
        for part in post.segments
    )
    return Markup("\n".join(f"> {line}  " for line in words.split("\n")))  # noqa: S704  # escaped here


def _bold(text: str) -> str:
    """Return words in bold, line by line; blanks at their ends stay outside of the stars, or they wouldn't be bold."""
    return re.sub(r"[^\s](?:[^\n]*[^\s])?", lambda match: f"**{escape_markdown(match[0])}**", text)


_CHIPS: dict[str, ChipKind] = {
    "press": "pressed", "withdraw": "withdrawn", "refute": "refuted", "concede": "conceded",
}  # fmt: skip
_CUE_STAGES = ("scan", "indictment", "investigation", "argument", "rebuttal")


def spoken_turn(turn: Turn, listed: Sequence[Cue] = ()) -> SpokenTurn:
    """Return a turn in words; `listed` are cues that stand in full beside it, so that it only names them."""
    ids = {cue.id for cue in listed}
    words = [
        f"{cue.id}, as above"
        if cue in listed
        else f"{line_of_case('cue', cue)} {cue.justification}"
        for cue in turn.cues
    ]
    for each in turn.arguments:
        claim = "" if each.cue_id in ids else f"{line_of_case('quoted', each.claim)} "
        words.append(f"{each.cue_id} {each.says}: {claim}{each.argument}")
    if turn.text or not words:
        nothing = "no sign of hate" if turn.stage == "scan" else "nothing"
        words.append(": ".join(each for each in (turn.stance, turn.text or nothing) if each))
    return SpokenTurn(title=line_of_case("turn", turn), words=tuple(words))


def mark_cues(turns: Sequence[Turn], cues: Sequence[Cue], text: str | None) -> list[MarkedCue]:
    """Return the cues of a run by their numbers, with the places in the post that they quote.

    The prosecutor's come first, then those that the gatekeeper alone saw. `text` is None where it isn't at hand.
    """
    marked = [
        MarkedCue(cue, number, quoted_spans(cue, text or ""))
        for number, cue in enumerate(cues, start=1)
    ]
    for cue in (cue for turn in turns if turn.stage == "scan" for cue in turn.cues):
        spans = quoted_spans(cue, text or "")
        if _find_scanned(cue, marked, text) is None:
            marked.append(MarkedCue(cue, len(marked) + 1, spans, by_gate=True))
    return marked


def _find_scanned(cue: Cue, marked: Sequence[MarkedCue], text: str | None) -> MarkedCue | None:
    """Return a cue of the gatekeeper's among these: itself, or the prosecutor's with the same claim or words."""
    own = quoted_spans(cue, text or "")
    for each in marked:
        if each.by_gate:
            same = each.cue is cue
        else:
            overlaps = any(
                begin < end_ and begin_ < end for begin, end in own for begin_, end_ in each.spans
            )
            same = overlaps or each.cue.claim.casefold() == cue.claim.casefold()
        if same:
            return each
    return None


def view_trial(
    turns: Sequence[Turn],
    marked: Sequence[MarkedCue],
    text: str | None,
    *,
    title: str,
    last_column: str,
    outcome: str,
    reasons: str,
    question: str = "",
    notes: Sequence[str] = (),
) -> ViewedTrial:
    """Return a run of the agents as it is viewed.

    `last_column` names who ended it, `outcome` what it came to, and `reasons` why; `question` is what a reviewer asked
    afterwards, and `notes` say what came of its rounds.
    """
    brought = [each.cue for each in marked if not each.by_gate]
    tables = [_cue_table(marked, turns, text, last_column, reasons)] if marked else []
    others = [
        turn for turn in turns if turn.stage not in _CUE_STAGES or (turn.text and not turn.cues)
    ]
    if others:
        tables.append(_speaker_table(others))
    return ViewedTrial(
        title=title,
        question=question,
        of_cues=any(turn.stage in _CUE_STAGES for turn in turns),
        outcome=outcome,
        reasons=reasons,
        cues=tuple(_view_cue(each, turns, text) for each in marked),
        tables=tuple(tables),
        turns=tuple(spoken_turn(turn, brought) for turn in turns),
        notes=tuple(notes),
    )


def _view_cue(each: MarkedCue, turns: Sequence[Turn], text: str | None) -> ViewedCue:
    fields = {
        **dict(each.cue),
        "number": each.number,
        "marked": None if text is None else bool(each.spans),
    }
    if each.by_gate:
        return ViewedCue(**{**fields, "id": f"scan {each.cue.id}", "by": "the gatekeeper alone"})
    last: dict[bool, StepRemark] = {}  # the last word of each side, the prosecution's first
    for turn in turns:
        for argument in turn.arguments:
            if argument.cue_id == each.cue.id:
                last[argument.stance in ("press", "withdraw")] = _remark_on_cue(turn, argument)
    standing = tuple(last[side] for side in (True, False) if side in last)
    return ViewedCue(**fields, by="the prosecution", standing=standing)


def _remark_on_cue(turn: Turn, argument: Argument) -> StepRemark:
    """Return an argument as a remark with its chip."""
    kind = _CHIPS[argument.stance]
    chip = f"{kind}, unchanged" if argument.held else kind
    return StepRemark(
        speaker=line_of_case("speaker", turn.seat), chip=chip, kind=kind, text=argument.argument
    )


def _cue_table(
    marked: Sequence[MarkedCue],
    turns: Sequence[Turn],
    text: str | None,
    last_column: str,
    reasons: str,
) -> StepTable:
    """Return the table of the cues."""
    cells: dict[str, dict[int, list[StepRemark]]] = {}  # by column and cue
    numbers = {each.cue.id: each.number for each in marked if not each.by_gate}
    for turn in (turn for turn in turns if turn.stage in _CUE_STAGES):
        scan = turn.stage == "scan"
        column = cells.setdefault("Gatekeeper" if scan else f"Round {turn.round}", {})
        for cue in turn.cues:
            same = _find_scanned(cue, marked, text) if scan else None
            number = same.number if same else numbers.get(cue.id)
            if number:
                chip = "found" if scan else "brought"
                speaker = line_of_case("speaker", turn.seat)
                remark = StepRemark(
                    speaker=speaker, chip=chip, kind="found", text=cue.justification
                )
                column.setdefault(number, []).append(remark)
        for argument in turn.arguments:
            number = numbers.get(argument.cue_id)
            if number:
                column.setdefault(number, []).append(_remark_on_cue(turn, argument))
    rows = [
        StepRow(
            title=f"{each.number}. {each.cue.claim}",
            cue=each.number,
            cells=(
                *(tuple(column.get(each.number, ())) for column in cells.values()),
                (_judge_remark(each, reasons),),
            ),
        )
        for each in marked
    ]
    return StepTable(
        caption="Cues, step by step",
        rows_are="cue",
        columns=(*cells, last_column),
        rows=tuple(rows),
    )


def _judge_remark(each: MarkedCue, reasons: str) -> StepRemark:
    """Return whether the reasons name a cue: by its id, its group or the words that it quotes; else nothing."""
    if each.by_gate:
        return StepRemark(chip="not charged")
    names = [each.cue.id, each.cue.attacked_group, *quotations_in(each.cue.claim)]
    named = next(find_spans(reasons, names), None)
    return StepRemark(chip="named in the reasons", kind="named") if named else StepRemark()


def _speaker_table(turns: Sequence[Turn]) -> StepTable:
    """Return the turns that speak of no cue: a row for each speaker, a column for each step."""
    rows: dict[str, dict[str, list[StepRemark]]] = {}
    columns: dict[str, None] = {}
    for turn in turns:
        step = line_of_case("step", turn)
        columns[step] = None
        remark = StepRemark(chip=turn.stance or "", text=turn.text)
        rows.setdefault(line_of_case("speaker", turn.seat), {}).setdefault(step, []).append(remark)
    return StepTable(
        caption="Who said what, step by step",
        rows_are="speaker",
        columns=tuple(columns),
        rows=tuple(
            StepRow(title=speaker, cells=tuple(tuple(steps.get(column, ())) for column in columns))
            for speaker, steps in rows.items()
        ),
    )
