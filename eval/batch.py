"""Run a graph over unlabelled posts: decide every row of a table, and write the rows with their outcomes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tribunal.docket.keeping import KeepOptions
from tribunal.errors import BadInput
from tribunal.eval.datasets.locations import Location, Unreachable, parse_location, put_whole
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.datasets.table_files import find_table_files, remove_copies
from tribunal.eval.runs.lifecycle import carry_out_run
from tribunal.eval.runs.parts import PartsFolder
from tribunal.eval.runs.run_file import describe_run
from tribunal.eval.runs.tables import (
    GROWING,
    GrowingTable,
    check_format,
    report_unwritten_table,
    write_parquet_table,
)
from tribunal.graphs import load_own
from tribunal.process.files import put_in_place
from tribunal.runner.job import AS_USUAL, RunJob, RunOptions, load_ray_engine
from tribunal.runner.journal import OutputUnwritten
from tribunal.runner.tally import RunTally
from tribunal.settings.contents import keep_files_read
from tribunal.settings.context import context_from, refuse_unused_settings
from tribunal.settings.environment import data_folder

_COPY = "finished"  # what is sent to a store, in the run's folder


class BatchOutput(NamedTuple):
    """Hold the place of a finished table, and the folder of its run."""

    place: Location
    folder: Path

    def __str__(self) -> str:
        """Return the place as the user gave it."""
        return self.place.shown

    @property
    def is_folder(self) -> bool:
        """Tell whether OUT is a folder, for Parquet parts as they come: it ends in a slash, or is a local folder."""
        return str(self).endswith("/") or (
            self.place.local_path is not None and self.place.local_path.is_dir()
        )

    @property
    def kept_in(self) -> str:
        """Name the place of the results, while the run goes on and after."""
        return str(self if self.is_folder else self.folder)

    def check_output(self, given: Location) -> None:
        """Check that the table can be written, and that it overwrites nothing that no batch has written.

        Args:
            given: the input, a file or a folder.

        Raises:
            BadInput: it is the input or lies in its folder, as the run's folder may not; its suffix is no format's;
                something else is there; or the store can't be used.
        """
        if self.place.is_same(given):
            raise BadInput(f"out: {self}: is the input; give another file")
        if self.place.is_beneath(given):
            raise BadInput(
                f"out: {self}: is in the input's folder, and would be read as input; give another"
            )
        if given.local_path is not None and parse_location(self.folder).is_beneath(given):
            raise BadInput(f"run-folder: {self.folder}: is in the input's folder; give another")
        if self.is_folder:
            return
        check_format(Path(self.place.name))
        taken = (
            self._object_exists()
            if self.place.local_path is None
            else self.place.local_path.is_file()
        )
        if taken and not self.folder.exists():
            raise BadInput(
                f"out: {self}: is there already, and no batch has written it; give another file"
            )

    def _object_exists(self) -> bool:
        """Return whether the store has an object of this name."""
        from pyarrow.fs import FileType

        try:
            found = self.place.file_info()
            if found.type == FileType.NotFound and (bucket := self.place.bucket()) is not None:
                with suppress(
                    Unreachable
                ):  # whoever may write an object may not always look at its bucket
                    if bucket.file_info().type == FileType.NotFound:
                        raise BadInput(
                            f"out: {self}: there is no bucket {bucket.path!r}; make it, or give another"
                        )
        except Unreachable as error:
            raise BadInput(f"out: {error}") from None
        if found.type == FileType.Directory:
            raise BadInput(f"out: {self}: is a folder; give a file in it")
        return bool(found.type == FileType.File)

    def write_output(
        self, dataset: PostTable, count: int, rows: GrowingTable | None, tell: Callable[[int], None]
    ) -> None:
        """Write the table of a finished run, whole or not at all; raise `OutputUnwritten` if it can't be written.

        `rows` are those that were written while it went on. `tell` is told now and then how many were written.
        """
        copy = self.place.local_path or self.folder / f"{_COPY}{self.place.suffix}"
        if rows is None:
            write_parquet_table(dataset, self.folder, count, copy, tell)
        else:
            with report_unwritten_table(copy, self.folder):
                rows.write_all(tell)
                put_in_place(rows.path, copy)
                rows.remove()
        if self.place.local_path is None:
            try:
                put_whole(self.place, copy)
            except Unreachable as error:
                raise OutputUnwritten(f"out: {error}") from error
            finally:
                copy.unlink(missing_ok=True)


def find_output(out: str | Path, run_folder: Path | None = None) -> BatchOutput:
    """Return the output at this path or URL.

    Args:
        out: where the finished table goes.
        run_folder: the folder of its run. None: `OUT.run`; of a URL, a folder of our data folder, named by the URL.

    Raises:
        BadInput: it names no place.
    """
    place = parse_location(out)
    if run_folder is None and place.local_path is not None:
        run_folder = place.local_path.with_name(f"{place.local_path.name}.run")
    elif run_folder is None:
        by_url = hashlib.sha256(place.shown.encode("utf-8", "replace")).hexdigest()[:12]
        run_folder = data_folder() / "batches" / f"{by_url}.run"
    return BatchOutput(place, run_folder)


@keep_files_read()
def batch(
    posts: str | Path,
    out: str | Path,
    options: RunOptions = AS_USUAL,
    *,
    graph: str,
    settings: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    keep: KeepOptions | None = None,
    run_folder: Path | None = None,
) -> RunTally:
    """Decide every row of a table, or go on with it, and write the rows out with their outcomes once all are decided.

    A row that waited for a person carries their decision once they have made it (`tribunal review`). A row that can't
    be judged is a failure of kind `input`, which says why, and costs no call.

    Args:
        posts: CSV, TSV, JSONL or Parquet, with a column of texts or images: a file or a folder of them, by its path or
            URL. What lies in a store is copied into the run's folder for as long as it goes on.
        out: the file to write, by its path or URL.
        options: how it is carried out.
        graph: its name, or its file.
        settings: fields of `Context`.
        columns: which column is what (`tribunal.eval.datasets.table`).
        keep: keeps every verdict in the service's database as well.
        run_folder: where results are kept until then, and after. None: as `find_output` says.

    Raises:
        BadInput: the file, a setting or the output is wrong. No result is lost.
    """
    place = parse_location(posts)
    output = find_output(out, run_folder)
    output.check_output(place)
    in_parts = output.is_folder
    if in_parts:
        if options.engine.name == "ray":
            load_ray_engine()
        for name, asked in (
            ("retry", options.retry),
            ("review", settings.get("review") or settings.get("review_rule")),
        ):
            if asked:
                raise BadInput(f"{name}: can't be had with a folder as OUT ({output}); give a file")
    folder = output.folder
    copies = output.folder / "input"
    load_own(graph)
    context = context_from(dict(settings))
    refuse_unused_settings(graph, context)
    tables = find_table_files(place, copies, options.warn)
    dataset = PostTable(tables, columns)

    def tell(count: int) -> None:
        options.watch(RunTally(total=0, preparing=f"reading {tables.name}: {count:,} rows"))

    dataset.fetch_images()
    plan = dataset.plan(tell=tell)
    data = {
        "name": "table",
        "files": [tables.name],
        "sha256": dataset.fingerprint,
        "columns": dict(columns or {}),
    }
    held = describe_run(graph, data, {}, 1, plan, context)
    from tribunal.docket.run_config import config_of_run

    job = RunJob(
        graph, context, plan, len(plan), keep=keep, config=config_of_run(output.folder.name)
    )

    parts = (
        PartsFolder(
            output.place, folder, dataset, len(plan), grows=options.engine.name == "embedded"
        )
        if in_parts
        else None
    )

    suffix = output.place.suffix.casefold()
    rows = None
    watched = options
    if suffix in GROWING and parts is None:
        rows = GrowingTable(folder, suffix, dataset, len(plan))
        watched = replace(options, watch=rows.watching(options.watch))

    def write(tally: RunTally) -> None:
        tell = partial(_tell_written, output, tally, options)
        if parts is not None:
            parts.finish(whole=not tally.stopped)
        elif not tally.stopped:
            output.write_output(dataset, len(plan), rows, tell)
        elif rows is not None:
            with suppress(OSError, BadInput):  # why it stopped is the better thing to be told
                rows.write_all(tell)
        tally.preparing = ""
        if not tally.stopped:
            remove_copies(copies)

    return carry_out_run(
        job,
        folder,
        held,
        write,
        watched,
        warnings=plan.warnings,
        reviewed=parts is None,
        parts=parts,
    )


def _tell_written(output: BatchOutput, tally: RunTally, options: RunOptions, count: int) -> None:
    tally.preparing = f"writing {output.place.name}: {count:,} of {tally.total:,} rows"
    options.watch(tally)
