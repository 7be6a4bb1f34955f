"""The pages: each selects from the runs' samples, and fills its template."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tribunal.cases.page_files import HEADERS
from tribunal.errors import BadInput
from tribunal.eval.runs.final_looks import final_look_in_words
from tribunal.eval.view.cases import SampleMoved, SamplePage, find_image_file, read_sample_line, view_sample
from tribunal.eval.view.rendering import flatten_settings, render_view
from tribunal.eval.view.rows import kept_text
from tribunal.eval.view.sample_filter import SampleFilter
from tribunal.eval.view.samples import select_samples
from tribunal.models.image import load_picture

if TYPE_CHECKING:
    from starlette.requests import Request

    from tribunal.eval.view.samples import IndexedSample, LoadedRun, SampleSelection
    from tribunal.eval.view.viewed_runs import ViewedRun, ViewedRuns
    from tribunal.schema import JSON

_EDGE = 1600  # pixels of an image's longest side
_HINT = "This run didn't keep its posts. Start with --data and the folder of the data set to see them."


class PageMissing(Exception):
    """There is no such page."""


class AskedSamples(NamedTuple):
    """Samples that a page asks for: the filter, the run or the two that it is of, and what it leaves of them."""

    wanted: SampleFilter
    runs: list[ViewedRun]
    loaded: list[LoadedRun]
    selection: SampleSelection

    @property
    def title(self) -> str:
        """Return the names of the runs."""
        return " beside ".join(run.name for run in self.runs)

    def samples_at(self, places: list[int]) -> list[IndexedSample]:
        """Return a sample of each run, by its place there."""
        return [loaded.table.sample(at, self.selection.folded) for loaded, at in zip(self.loaded, places, strict=False)]


class Pages:
    """The pages of some runs. Each method answers a request; a server calls it in a thread."""

    def __init__(self, runs: ViewedRuns) -> None:
        """Take the runs, whose reading has begun."""
        self._runs = runs.runs

    def list_runs(self, request: Request) -> Response:
        """Show the runs; of one run its samples."""
        if len(self._runs) == 1:
            return RedirectResponse(f"/samples?{SampleFilter(run=next(iter(self._runs))).query()}", 303, HEADERS)
        rows = []
        for run in self._runs.values():
            loaded = run.load()
            kinds = dict(select_samples(SampleFilter(), loaded).facets[0].counts)
            undecided = kinds.get("no-verdict", 0)
            rows.append(
                {
                    "name": run.name,
                    "query": SampleFilter(run=run.name).query(),
                    "graph": run.index.run.get("graph"),
                    "dataset": run.index.run.get("dataset"),
                    "samples": loaded.table.samples,
                    "whole": loaded.table.is_complete,
                    "verdicts": loaded.table.samples - undecided,
                    "right": kinds.get("true-positive", 0) + kinds.get("true-negative", 0),
                    "decided": loaded.table.samples - undecided - kinds.get("no-gold", 0),
                }
            )
        return _respond("runs.html.jinja", title="Runs", runs=rows)

    def list_samples(self, request: Request, runs: int = 1) -> Response:
        """Show a page of the samples of a run; of two, of those that both hold."""
        asked = self._select(request, runs)
        rows = []
        for place in asked.selection.page(asked.wanted.page):
            samples = asked.samples_at([place, int(asked.selection.partners[place])][:runs])
            rows.append((*samples, _post_words(asked.runs[0], samples[0]) if asked.wanted.read else None))
        held = asked.runs[0].index.run
        return self._show(
            "samples.html.jinja" if runs == 1 else "pairs.html.jinja",
            asked,
            title=asked.title + (": samples" if runs == 1 else ""),
            selection=asked.selection,
            rows=rows,
            told=", ".join(str(held[name]) for name in ("graph", "dataset") if held.get(name)),
        )

    def show_sample(self, request: Request, runs: int = 1) -> Response:
        """Show one sample of a run, or of two side by side."""
        asked = self._select(request, runs)
        folded = asked.selection.folded
        samples = [
            _asked_sample(request, run, loaded, folded) for run, loaded in zip(asked.runs, asked.loaded, strict=True)
        ]
        prefixes = ("ex-",) if runs == 1 else ("a-", "b-")
        cases = list(map(_view_case, asked.runs, samples, prefixes))
        first = samples[0]
        place, *around = asked.selection.around(first.row)
        before, after = (None if each is None else asked.samples_at([each])[0] for each in around)
        others = [
            (name, f"/pair?{asked.wanted.with_fields(other=name).query(post=first.post, repeat=first.repeat)}")
            for name in self._runs
            if name != asked.runs[0].name
        ]
        return self._show(
            "sample.html.jinja" if runs == 1 else "pair.html.jinja",
            asked,
            title=f"{first.post}: {asked.title}",
            samples=samples,
            place=place,
            before=before,
            after=after,
            cases=[case for case, _ in cases],
            hint=cases[0][1],
            others=others,
            here=SampleFilter(run=asked.runs[0].name).query(post=first.post, repeat=first.repeat),
        )

    def show_line(self, request: Request) -> Response:
        """Serve the line of a sample as JSON."""
        asked = self._select(request, 1)
        found = _asked_sample(request, asked.runs[0], asked.loaded[0], folded=False)
        written = json.dumps(read_sample_line(asked.runs[0].index.folder, found), ensure_ascii=False, indent=1)
        return Response(written, media_type="application/json", headers=HEADERS)

    async def show_image(self, request: Request) -> Response:
        """Serve a post's image, drawn anew, so that nothing is in it but its pixels."""
        try:
            line, file = await run_in_threadpool(self._find_image, **request.path_params)
            if file is None:
                raise PageMissing("The image isn't here.")
            found = await load_picture(file, _EDGE, sha256=line.get("image_sha256"))
        except (BadInput, PageMissing, SampleMoved) as error:
            return render_problem(404, "No image", f"It can't be shown: {error}")
        raw = base64.b64decode(found.data_uri.partition(",")[2])
        alone = {**HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox"}
        return Response(raw, media_type="image/jpeg", headers=alone)

    def _find_image(self, run: int, row: int) -> tuple[JSON, str | None]:
        viewed = dict(enumerate(self._runs.values())).get(run)
        if viewed is None:
            raise PageMissing("There is no such run.")
        table = viewed.load().table
        if not 0 < row <= table.samples:
            raise PageMissing("There is no such sample.")
        found = table.sample(row - 1, folded=False)
        line = read_sample_line(viewed.index.folder, found)
        return line, find_image_file(line, viewed.find_post(found.post))

    def _show(self, template: str, asked: AskedSamples, **values: Any) -> Response:
        """Answer with a page about one run or two."""
        datasets = [run.index.run.get("dataset") for run in asked.runs]
        notes = _dataset_notes(asked.runs[0])
        looks = (final_look_in_words(run.index.run, run.index.folder) for run in asked.runs)
        notes += [f"{each}." for each in dict.fromkeys(filter(None, looks))]
        if len(set(datasets)) > 1:
            notes.append(
                f"These runs use different data sets: {datasets[0]} and {datasets[1]}. Posts are matched by id."
            )
        return _respond(
            template,
            names=list(self._runs),
            wanted=asked.wanted,
            standing=asked.loaded[0].table,
            total=len(asked.selection.places),
            said=notes,
            money=any(run.index.prices is not None for run in asked.runs),
            settings=[list(flatten_settings(run.index.run)) for run in asked.runs],
            **values,
        )

    def _select(self, request: Request, count: int) -> AskedSamples:
        """Return what a request asks for of one run or of two: the runs as they are now, and the filtered samples."""
        wanted = SampleFilter.from_query(request.query_params.multi_items())
        if count == 1:
            wanted = wanted.with_fields(other="", into="", page=wanted.page)
        elif not wanted.other:
            raise PageMissing("Choose a second run.")
        runs = [self._find_run(name) for name in (wanted.run, wanted.other)[:count]]
        wanted = wanted.with_fields(run=runs[0].name, page=wanted.page)
        loaded = [run.load(wanted.search_terms) for run in runs]
        return AskedSamples(wanted, runs, loaded, select_samples(wanted, *loaded))

    def _find_run(self, name: str) -> ViewedRun:
        """Return a run by its name; the first one where none is named."""
        run = self._runs.get(name) if name else next(iter(self._runs.values()))
        if run is None:
            raise PageMissing(f"There is no run {name[:100]!r} here.")
        return run


def render_problem(status: int, title: str, problem: str) -> Response:
    """Answer with a page that says what is wrong."""
    return HTMLResponse(render_view("problem.html.jinja", title=title, problem=problem), status, HEADERS)


def _respond(template: str, **values: Any) -> Response:
    return HTMLResponse(render_view(template, **values), 200, HEADERS)


def _dataset_notes(run: ViewedRun) -> list[str]:
    """Return what a reader has to know of the re-attached texts."""
    if run.texts is None or run.texts.is_ready:
        return []
    if run.texts.problem:
        return [f"The data set can't be read: {run.texts.problem}"]
    return ["Reading the data set. Reload the page to see the posts."]


def _asked_sample(request: Request, run: ViewedRun, loaded: LoadedRun, folded: bool) -> IndexedSample:
    """Return the sample whose post and repeat an address names."""
    post, repeat = request.query_params.get("post", ""), request.query_params.get("repeat", "0")
    if not (repeat.isascii() and repeat.isdigit() and len(repeat) < 10):
        raise BadInput(f"repeat: {repeat[:80]!r}: is not a number")
    place = loaded.table.find(post, int(repeat))
    if place is None:
        raise PageMissing(f"{run.name} has no post {post[:100]!r} in repeat {int(repeat)}, or not yet.")
    return loaded.table.sample(place, folded)


def _post_words(run: ViewedRun, found: IndexedSample) -> str | None:
    attached = run.find_post(found.post)
    return attached.text if attached else kept_text(read_sample_line(run.index.folder, found))


def _view_case(run: ViewedRun, found: IndexedSample, prefix: str) -> tuple[SamplePage, str]:
    """Return a sample's page, and what a reader can do to see more of it."""
    line, text = read_sample_line(run.index.folder, found), run.find_post(found.post)
    image = f"/image/{run.number}/{found.row + 1}" if find_image_file(line, text) else None
    hint = "" if text or run.texts or kept_text(line) is not None else _HINT
    return view_sample(line, text, prices=run.index.prices, image=image, prefix=prefix), hint
