"""`tribunal evidence`: the archive of web research, as a person would want to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tribunal.commands.errors import ending_well
from tribunal.rehearsed import REHEARSED, rehearsed
from tribunal.terminal import say_json, screen

if TYPE_CHECKING:
    from tribunal.retrievers.web.trail import Overview, StoredPage, Trail
    from tribunal.screen import Screen

JSON = dict[str, Any]

BY_RULES = "by the rehearsal's rules"

app = typer.Typer(
    no_args_is_help=True,
    help="The archive: what was searched, read, kept and decided on the way to a verdict.",
)

File = Annotated[
    Path | None, typer.Option("--archive", metavar="FILE", help="The archive; left out: the one in the data folder.")
]


@app.command()
def show(
    post: Annotated[
        str | None, typer.Argument(metavar="[POST_ID]", help="A post, or a run of it; left out: the latest run.")
    ] = None,
    archive: File = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all that is archived as one JSON object, and nothing else.")
    ] = False,
) -> None:
    """Show the trail of a post: thoughts, queries, hits, pages, passages, judgements, and the verdict with what it
    cites."""
    with ending_well():
        trail = asyncio.run(_trail(post, archive))
        if as_json:
            say_json(trail.model_dump(mode="json"), indent=2)
            return
        _Printer(screen()).print(trail)


@app.command("list")
def list_(archive: File = None) -> None:
    """List the runs that are archived, the latest last."""
    from rich.table import Table

    with ending_well():
        rows = asyncio.run(_listed(archive))
    table = Table("post", "run", "began (UTC)", "searches", "pages", "verdict", box=None, pad_edge=False)
    for each in rows:
        began = each.run.started[:19].replace("T", " ")
        cells = each.run.post_id, each.run.id, began, each.searches, each.pages, _label(each.verdict or {})
        table.add_row(*map(str, cells))
    screen(wide=True).print(table)


async def _trail(post: str | None, file: Path | None) -> Trail:
    from tribunal.errors import BadInput
    from tribunal.retrievers.web.archive import Archive

    archive = await Archive.open(file, existing=True)
    try:
        if post is None:
            latest = await archive.latest()
            if latest is None:
                raise BadInput(f"archive {archive.path}: holds no run yet")
            post = latest.id
        return await archive.trail(post)
    finally:
        await archive.close()


async def _listed(file: Path | None) -> list[Overview]:
    from tribunal.retrievers.web.archive import Archive

    archive = await Archive.open(file, existing=True)
    try:
        return await archive.overviews()
    finally:
        await archive.close()


def _rehearsed(trail: Trail) -> bool:
    """Whether the rehearsal model looked up, or decided, any of it."""
    asked = [call for each in trail.of("reply") for call in each.body.get("calls", [])]
    return rehearsed(asked) or bool(_verdict(trail).get("rehearsed"))


def _verdict(trail: Trail) -> JSON:
    return next((each.body for each in reversed(trail.of("decision", "verdict"))), {})


def _label(verdict: JSON) -> str:
    if not verdict:
        return "none"
    label = {True: "HATE", False: "NON-HATE"}.get(verdict.get("hateful", ""), str(verdict.get("label", "?")))
    label += f" {BY_RULES}" if verdict.get("rehearsed") else ""
    confidence = verdict.get("confidence")
    return label if confidence is None else f"{label} ({confidence:.2f})" if isinstance(confidence, float) else label


class _Printer:
    """Prints a trail. All in it but our own words is a stranger's, and is made visible."""

    def __init__(self, console: Screen) -> None:
        self._console = console

    def print(self, trail: Trail) -> None:
        self._head(trail)
        for turn in _turns(trail):
            self._say(f"\nTurn {turn}", style="bold")
            for each in _decided(trail, "plan", turn):
                self._plan(each)
            self._searches(trail, turn)
            self._pages(trail, turn)
            for each in _decided(trail, "sufficiency", turn):
                enough = "yes" if each.get("sufficient") else "no"
                self._say(f"enough? {enough}", _after(each.get("missing")), 2, style="cyan")
        self._outcome(trail)

    def _head(self, trail: Trail) -> None:
        run = trail.run
        self._say(f"Post {run.post_id}", style="bold")
        self._say(f"run {run.id}, began {run.started[:19].replace('T', ' ')} UTC", indent=2)
        self._say(f"text sha256 {run.post_sha}", indent=2)
        if run.settings:
            self._say(", ".join(f"{name} {value}" for name, value in run.settings.items()), indent=2, style="dim")
        if _rehearsed(trail):
            self._say("", REHEARSED, 2, style="yellow")

    # One turn

    def _plan(self, plan: JSON) -> None:
        if plan.get("thought"):
            self._say("thought: ", str(plan["thought"]), 2, style="cyan")
        for kind in ("entities", "claims"):
            if named := _texts(plan.get(kind)):
                self._say(f"{kind} to verify: ", "; ".join(named), 2, style="cyan")

    def _searches(self, trail: Trail, turn: int) -> None:
        judged = _decided(trail, "relevance", turn)
        # Not everything that is relevant is read: `chosen` is what is left within the limit on pages.
        kept = {_normal(url) for each in judged for url in _texts(each.get("relevant", each.get("chosen")))}
        for search in (each for each in trail.of("search") if each.body.get("turn") == turn):
            hits = search.body.get("hits", [])
            by = f"by {search.body['engine']}" if search.body.get("engine") else "by no engine"
            self._say(f"searched “{search.key}”: {len(hits)} hit{'s' * (len(hits) != 1)} {by}", indent=2, style="cyan")
            for fault in search.body.get("failures", []):
                self._say(f"{fault.get('engine')} failed ({fault.get('kind')}): {fault.get('message')}", indent=4)
            for hit in hits:
                relevant = _normal(str(hit.get("url"))) in kept
                mark = "" if not judged else "relevant     " if relevant else "not relevant "
                self._say(f"{mark}{hit.get('title') or '(no title)'}", indent=4)
                self._say(str(hit.get("url")), indent=6, style="dim")

    def _pages(self, trail: Trail, turn: int) -> None:
        fetches = {each.key: each.body for each in trail.of("fetch") if each.body.get("turn") == turn}
        notes = {str(each.get("url")): each for each in _decided(trail, "page", turn)}
        # The order in which they were weighed is the order in which the judgement came about.
        for url in dict.fromkeys([*notes, *fetches]):
            fetched, note = fetches.get(url, {}), notes.get(url, {})
            page = trail.pages.get(str(fetched.get("page")))
            failure = fetched.get("failure") or note.get("error")
            if page is None:
                self._say("no page: ", str(failure or f"{url}: no word of it is archived"), 2, style="yellow")
                continue
            self._page(url, page, failure)
            held = [each for each in _evidence(trail) if each.get("page_id") == page.id]
            for each in held:
                self._passage(each)
            if not held:
                self._say("no passage was kept", indent=4, style="dim")
            for each in _decided(trail, "judgement", turn):
                if each.get("url") == url:
                    self._say(f"judgement: {each.get('judgement')}", _after(each.get("reasoning")), 4, style="cyan")

    def _page(self, url: str, page: StoredPage, failure: Any) -> None:
        self._say(f"page “{page.title or 'no title'}”, {page.date or 'no date'}", indent=2, style="cyan")
        self._say(url if url == page.final_url else f"{url} → {page.final_url}", indent=4, style="dim")
        about = [page.content_type, page.language, f"fetched {page.fetched_at[:19].replace('T', ' ')}", f"id {page.id}"]
        self._say(", ".join(filter(None, about)), indent=4, style="dim")
        if failure:
            self._say(str(failure), indent=4, style="yellow")

    def _passage(self, each: JSON) -> None:
        where = f"window {each.get('window')}, characters {each.get('start')} to {each.get('end')}"
        self._say(f"{each.get('id')} {each.get('stance')} ({where})", indent=4)
        self._say(f"“{each.get('passage')}”", indent=6)

    # The end

    def _outcome(self, trail: Trail) -> None:
        verdict = _verdict(trail)
        if not verdict:
            self._say("\nNo verdict is archived: the run was ended before it, or is still under way.", style="yellow")
            return
        self._say(f"\nVerdict: {_label(verdict)}", style="bold")
        known = {str(each.get("id")): each for each in _evidence(trail)}
        steps = [each for each in verdict.get("steps") or [] if isinstance(each, dict)]
        if not steps:
            self._say(str(verdict.get("explanation", "")), indent=2)
        for step in steps:
            self._say(str(step.get("claim", "")), indent=2)
            for cited in _texts(step.get("evidence")):
                self._cited(cited, known.get(cited))

    def _cited(self, cited: str, evidence: JSON | None) -> None:
        if evidence is None:
            self._say(f"[{cited}] is not in the archive", indent=4, style="yellow")
            return
        self._say(f"[{cited}] {evidence.get('stance')}, {evidence.get('url')}", indent=4, style="dim")
        self._say(f"“{evidence.get('passage')}”", indent=6)

    def _say(self, own: str, more: str = "", indent: int = 0, *, style: str = "") -> None:
        """A paragraph, indented on each of its lines."""
        from rich.padding import Padding
        from rich.text import Text

        from tribunal.text import visible

        gap = "\n" if own.startswith("\n") else ""
        words = Text(visible(own.removeprefix("\n")), style=style)
        words.append(visible(more))
        if self._console.is_terminal:
            self._console.print(gap, Padding(words, (0, 0, 0, indent), expand=False), sep="", end="")
        else:
            # For a pipe: one line a paragraph, however long.
            pad = " " * indent
            self._console.print(gap + pad + words.plain.replace("\n", f"\n{pad}"), soft_wrap=True)


def _turns(trail: Trail) -> Sequence[int]:
    held = {each.body.get("turn") for each in trail.entries}
    return sorted(turn for turn in held if isinstance(turn, int) and turn > 0)


def _decided(trail: Trail, kind: str, turn: int) -> list[JSON]:
    return [each.body for each in trail.of("decision", kind) if each.body.get("turn") == turn]


def _evidence(trail: Trail) -> list[JSON]:
    """The passages that were kept: a decision each, or held by the decisions on their pages."""
    in_pages = (each.body.get("evidence") for each in trail.of("decision", "page"))
    nested = [each for held in in_pages if isinstance(held, list) for each in held if isinstance(each, dict)]
    return [*(each.body for each in trail.of("decision", "evidence")), *nested]


def _texts(value: Any) -> Iterable[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def _after(words: Any) -> str:
    return f"; {words}" if words else ""


def _normal(url: str) -> str:
    from tribunal.retrievers.web.search.hits import normal_url

    return normal_url(url)
