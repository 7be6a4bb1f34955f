"""Write a sealed run as one zip archive, and read one that may be hostile."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tribunal.errors import BadInput
from tribunal.eval.measures.metrics import METRICS, measure_run, save_metrics
from tribunal.eval.report.cards import render_cards
from tribunal.eval.runs.chain import find_chain_fault, hash_beginning, hash_line, link_line, link_of_line
from tribunal.eval.runs.journal import RESULTS, RUN, SUPERSEDED, parse_result
from tribunal.eval.runs.lifecycle import lock_run_folder
from tribunal.eval.runs.results import find_run_folders, read_run_file
from tribunal.eval.runs.run_file import encode_run_file
from tribunal.eval.seal.manifest import (
    SEAL,
    is_sealable,
    list_sealed_files,
    read_sealed_name,
    write_seal,
)
from tribunal.files import bounded_lines, create_file, open_regular, read_regular, write_atomically, write_whole
from tribunal.schema import JSON
from tribunal.text import parse_json

_TIMES_LARGER, _AT_LEAST = 200, 2**26  # what an archive may unpack to: so many times its size, or so many bytes
_PIECE, _LONGEST_NAME = 2**20, 200


def seal_run(folder: Path, archive: Path, *, texts: bool = False) -> str:
    """Seal the folder of a run, or of an experiment with all its runs, and pack it into an archive.

    Args:
        folder: the run's or the experiment's; seal.json and each run's two cards are written there, too.
        archive: the zip file that is written.
        texts: pack the posts' words that the run kept, and reports and exports, which quote posts; otherwise hashes
            take the words' place.

    Returns:
        The hash of the archive's seal, by which it can be told from one that was sealed anew.

    Raises:
        BadInput: the run is unfinished or its results aren't as they were written, or a file can't be read or written.
    """
    try:
        with ExitStack() as stack:
            for run in find_run_folders([folder]):
                _prepare_run(run, stack)
            name = folder.resolve().name
            write_seal(folder, list_sealed_files(folder, texts=True), name, texts=True)
            names = list_sealed_files(folder, texts=texts)
            with TemporaryDirectory(prefix="tribunal-seal-") as made:
                packed = Path(made)
                for each in names:
                    (packed / each).parent.mkdir(parents=True, exist_ok=True)
                    _copy_for_archive((folder / each).parent, (packed / each).parent, Path(each).name, texts=texts)
                seal = write_seal(packed, names, name, texts=texts)
                with write_atomically(archive) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as into:
                    for each in (SEAL, *names):
                        into.write(packed / each, each)
    except OSError as error:
        raise BadInput(f"{error.filename or archive}: {error.strerror or error}; see to the file") from error
    return seal


def _prepare_run(folder: Path, stack: ExitStack) -> None:
    """Lock a run's folder, check that the run is whole and as it was written, and write its cards."""
    run = read_run_file(folder)
    if not run.get("finished"):
        raise BadInput(f"{folder}: the run is unfinished; let it go on, and seal it then")
    stack.enter_context(lock_run_folder(folder))
    if fault := find_chain_fault(folder / RESULTS, run):
        raise BadInput(f"{folder}: {RESULTS}: {fault}; a changed run can't be sealed")
    if not (folder / METRICS).exists():
        save_metrics(folder, measure_run(folder))
    for name, text in render_run_cards(folder).items():
        write_whole(folder / name, text)


def render_run_cards(folder: Path) -> dict[str, str]:
    """Return the model card and the data statement of a measured run, by the names of their files."""
    return render_cards(read_run_file(folder), parse_json(read_regular(folder / METRICS)))


def _copy_for_archive(folder: Path, packed: Path, name: str, *, texts: bool) -> None:
    """Copy a file; of results, each post's words by their hash unless they are wanted."""
    previous = None
    with open_regular(folder / name) as file, create_file(packed / name) as into:
        if texts or name not in (RESULTS, SUPERSEDED):
            while piece := file.read(_PIECE):
                into.write(piece)
            return
        for line in bounded_lines(file):
            fresh = _hash_words(folder / name, line)
            if name == RESULTS and previous is not None and link_of_line(line) is not None:
                fresh = link_line(fresh, previous)
            into.write(fresh)
            previous = hash_line(fresh)
    if name == RESULTS:
        run = read_run_file(packed)
        write_whole(packed / RUN, encode_run_file({**run, "head": previous or hash_beginning(run)}))


def _hash_words(path: Path, line: bytes) -> bytes:
    """Return a line with the hash of the post's words in their place."""
    if b'"text":' not in line:
        return line
    held: JSON = parse_result(path, line, 0)
    if not isinstance(words := held.get("text"), str):
        return line
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
    fresh = {"text_sha256" if each == "text" else each: digest if each == "text" else held[each] for each in held}
    return (json.dumps(fresh, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")


@contextmanager
def unpack_archive(path: Path) -> Iterator[Path]:
    """Unpack a sealed run into a folder that goes with the context. No more is written than the archive's size allows.

    Raises:
        BadInput: it is no archive of a run, or one of its files was altered; which.
    """
    name = ""
    with TemporaryDirectory(prefix="tribunal-seal-") as made:
        unpacked = Path(made) / "run"
        try:
            with open_regular(path) as file, zipfile.ZipFile(file) as archive:
                left = max(_AT_LEAST, _TIMES_LARGER * path.stat().st_size)
                for entry in archive.infolist():
                    name = entry.filename[:_LONGEST_NAME]
                    if name != SEAL and not is_sealable(name):
                        raise BadInput(f"{name!r}: is no file of a sealed run")
                    (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(entry) as packed, create_file(unpacked / name) as into:
                        while piece := packed.read(_PIECE):
                            left -= len(piece)
                            if left < 0:
                                raise BadInput(f"{name}: the archive holds far more than its size")
                            into.write(piece)
        except FileExistsError as error:
            raise BadInput(f"{name}: is there twice") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise BadInput(f"{name or path}: is broken: {error}") from error
        except OSError as error:
            raise BadInput(f"{name or path}: {error.strerror or error}; give a run's folder or its archive") from error
        unpacked.mkdir(exist_ok=True)  # of an archive without a file
        yield unpacked.rename(unpacked.with_name(read_sealed_name(unpacked)))
