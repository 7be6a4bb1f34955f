"""Where `tribunal batch` puts its finished table, and the folder in which results lie until then, and after."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.eval.runs.every_row import EveryRow
from tribunal.eval.runs.journal import Unwritten
from tribunal.eval.runs.tables import check_format, write_table
from tribunal.locations import Location, Unreachable, located, put_whole

_COPY = "finished"  # what is sent to a store, in the run's folder


class Output(NamedTuple):
    """A finished table's place, and the folder of its run."""

    place: Location
    folder: Path

    def __str__(self) -> str:
        return self.place.shown

    @property
    def is_folder(self) -> bool:
        """Whether OUT is a folder, into which only a cluster writes: it ends in a slash, or is one on this machine."""
        return str(self).endswith("/") or (self.place.here is not None and self.place.here.is_dir())

    @property
    def kept_in(self) -> str:
        """Where results are, before they are all there and after."""
        return str(self if self.is_folder else self.folder)

    def check(self, given: Location) -> None:
        """See that the table can be written, and that it takes the place of nothing that no batch has written.

        Args:
            given: the input, a file or a folder.

        Raises:
            BadInput: its suffix is no format's, it is the input or lies in its folder, something else is there, or the
                store can't be used.
        """
        check_format(Path(self.place.name))
        self.check_apart(given)
        begun = self.folder.exists()
        taken = self._taken() if self.place.here is None else self.place.here.is_file()
        if taken and not begun:
            raise BadInput(f"out: {self}: is there already, and no batch has written it; give another file")

    def check_apart(self, given: Location) -> None:
        """See that what is written is no input.

        Raises:
            BadInput: it is the input, or lies in its folder; or the run's folder does.
        """
        if self.place.is_same(given):
            raise BadInput(f"out: {self}: is the input; give another file")
        if self.place.is_beneath(given):
            raise BadInput(f"out: {self}: lies in the input's folder, and would be read as input; give another")
        if given.here is not None and located(self.folder).is_beneath(given):
            raise BadInput(f"run-folder: {self.folder}: lies in the input's folder; give another")

    def _taken(self) -> bool:
        """Whether an object of this name is in the store."""
        from pyarrow.fs import FileType

        try:
            found = self.place.found()
            if found.type == FileType.NotFound and (bucket := self.place.bucket()) is not None:
                with suppress(Unreachable):  # whoever may write an object may not always look at its bucket
                    if bucket.found().type == FileType.NotFound:
                        raise BadInput(f"out: {self}: there is no bucket {bucket.path!r}; make it, or give another")
        except Unreachable as error:
            raise BadInput(f"out: {error}") from None
        if found.type == FileType.Directory:
            raise BadInput(f"out: {self}: is a folder; give a file in it")
        return bool(found.type == FileType.File)

    def write(self, dataset: EveryRow, count: int) -> None:
        """Write the table of a run that is done; whole, or not at all.

        Raises:
            Unwritten: it can't be written.
        """
        if self.place.here is not None:
            write_table(dataset, self.folder, count, self.place.here)
            return
        copy = self.folder / f"{_COPY}{self.place.suffix}"
        try:
            write_table(dataset, self.folder, count, copy)
            put_whole(self.place, copy)
        except Unreachable as error:
            raise Unwritten(f"out: {error}") from error
        finally:
            with suppress(OSError):
                copy.unlink(missing_ok=True)


def output_of(out: str | Path, run_folder: Path | None = None) -> Output:
    """The output of this path or URL.

    Args:
        out: where the finished table goes.
        run_folder: the folder of its run. None: `OUT.run`; of a URL, a folder of our data folder, named by the URL.

    Raises:
        BadInput: it names no place.
    """
    place = located(out)
    if run_folder is None and place.here is not None:
        run_folder = place.here.with_name(f"{place.here.name}.run")
    elif run_folder is None:
        by_url = hashlib.sha256(place.shown.encode("utf-8", "replace")).hexdigest()[:12]
        run_folder = data_folder() / "batches" / f"{by_url}.run"
    return Output(place, run_folder)
