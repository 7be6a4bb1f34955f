"""Files and folders by a path of this machine or by a URL: `s3://`, `gs://`, `hf://` and whatever fsspec knows.

PyArrow reads the stores that it knows itself, with the keys of their usual environment variables (`AWS_ACCESS_KEY_ID`,
`AWS_ENDPOINT_URL`, `GOOGLE_APPLICATION_CREDENTIALS`, …). The others are read by the package of fsspec for their scheme.
A URL holds no key, so it may be shown, kept and sent to another process.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from tribunal.core.text import one_line, scrub
from tribunal.errors import BadInput
from tribunal.process.files import open_regular, write_atomically, write_whole

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_HERE = ("file", "local")
_OF_PYARROW = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
_WITH_BUCKETS = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl", "hf", "oci", "oss")
_WITH_CONTAINER = ("abfs", "abfss")  # abfs://CONTAINER@ACCOUNT/…
# Google's client tries for a quarter of an hour where it finds no key.
_PATIENT = ("gs", "gcs")
_SECRET = re.compile(r"(?:secret|token|password|sig(?:nature)?|key|credential)\w*=", re.IGNORECASE)
# What may hold a key, so that a message of a client which repeats one is struck.
_KEPT_IN = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_KEY",
    "HF_TOKEN",
)
_LONGEST = 300  # characters of a client's message


class Unreachable(BadInput):
    """A store didn't do what it was asked. `str()` names the place and the reason, and no key."""


@dataclass(frozen=True)
class Location:
    """A place on this machine or in a store. Methods raise `Unreachable` if the store doesn't answer.

    Attributes:
        path: the place in its file system, without an ending slash.
        shown: the place as it was given, without its query. Nothing secret is in it.
        store: the file system; None: this machine, of which most is known without PyArrow, which takes a quarter of a
            second to import.
    """

    path: str
    shown: str
    store: FileSystem | None = None

    def __str__(self) -> str:
        """Return the place as it was given."""
        return self.shown

    @property
    def fs(self) -> FileSystem:
        """Return the file system."""
        from pyarrow.fs import LocalFileSystem

        return self.store or LocalFileSystem()

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return PurePosixPath(self.path).name

    @property
    def parent(self) -> Location:
        """Return the folder that it is in."""
        return Location(self.path.rpartition("/")[0], self.shown.rpartition("/")[0], self.store)

    @property
    def suffix(self) -> str:
        """Return what the name ends in, from its last dot on."""
        return PurePosixPath(self.path).suffix

    @property
    def local_path(self) -> Path | None:
        """Return the path if it is on this machine."""
        return None if self.store else Path(self.path)

    def bucket(self) -> Location | None:
        """Return the bucket that it is in, where its file system has buckets."""
        has_buckets = self.store is not None and self.store.type_name in ("s3", "gcs", "abfs")
        return (
            Location(self.path.partition("/")[0], self.shown, self.store) if has_buckets else None
        )

    def is_same(self, other: Location) -> bool:
        """Return whether both are one file or folder."""
        if self.local_path is None or other.local_path is None:
            return self.fs.type_name == other.fs.type_name and self.path == other.path
        try:
            return self.local_path.samefile(other.local_path)
        except OSError:  # one of them isn't there
            return False

    def is_beneath(self, folder: Location) -> bool:
        """Return whether it lies in a folder, at any depth."""
        if self.local_path is None or folder.local_path is None:
            return self.fs.type_name == folder.fs.type_name and self.path.startswith(
                f"{folder.path}/"
            )
        return folder.local_path.is_dir() and self.local_path.resolve().is_relative_to(
            folder.local_path.resolve()
        )

    def beneath(self, path: str) -> Location:
        """Return a place in this folder, by its path in the file system."""
        shown = f"{self.shown.rstrip('/')}/{path.removeprefix(self.path).lstrip('/')}"
        return Location(path, shown, self.store)

    def file_info(self) -> FileInfo:
        """Return what is there: its type (a file, a folder or nothing), and the size and time of a file."""
        with _answering(self.shown):
            return self.fs.get_file_info(self.path)

    def files(self) -> list[FileInfo]:
        """Return every file of this folder, those of folders in it too. The store decides on the order."""
        from pyarrow.fs import FileSelector, FileType

        with _answering(self.shown):
            found = self.fs.get_file_info(FileSelector(self.path, recursive=True))
        return [each for each in found if each.type == FileType.File]


def is_url(text: str) -> bool:
    """Return whether a text is a URL, and no path."""
    return _URL.match(text) is not None


def parse_location(text: str | Path) -> Location:
    """Return the place that a path or a URL names. No store is asked whether it is there.

    Args:
        text: a path of this machine, or a URL. A URL's `%20` is a space, as a space is. The query of a URL is PyArrow's
            own for the store, such as `?region=eu-west-1` or `?endpoint_override=127.0.0.1:9000&scheme=http`.

    Raises:
        BadInput: it names no place; it holds a key or a password; nothing that is installed reads such a URL.
    """
    if not str(text).strip():
        raise BadInput("path: is empty; give a file, a folder or a URL")
    found = _URL.match(text) if isinstance(text, str) else None
    if found is None:
        return Location(str(text), str(text))
    scheme = found["scheme"].lower()
    rest = found["rest"]
    if scheme in _HERE:
        return Location(unquote(rest.removeprefix("localhost")), f"{scheme}://{rest}")
    path, _, query = rest.partition("?")
    shown = f"{scheme}://{path}"
    _refuse_secrets(scheme, path, query)
    if "::" in path:
        raise BadInput(
            f"{shown}: a file inside another one isn't read; unpack it, and give its own place"
        )
    if any(part in (".", "..") for part in re.split(r"[/\\]", unquote(path))):
        raise BadInput(f"{shown}: has a part . or ..; give the whole path")
    if scheme in _WITH_BUCKETS and not path.partition("/")[0].strip():
        raise BadInput(f"{shown}: names no bucket; give {scheme}://BUCKET/PATH")
    if scheme in _OF_PYARROW:
        return _of_pyarrow(scheme, path, query, shown)
    if query:
        raise BadInput(
            f"{shown}: a query isn't taken with {scheme}://; leave it out, or fetch the file first"
        )
    return _of_fsspec(scheme, path, shown)


def _refuse_secrets(scheme: str, path: str, query: str) -> None:
    """Refuse a URL that holds a key: a command's words are in the shell's history, and every user sees them in `ps`."""
    place = path.partition("/")[0]
    account, at, _ = place.rpartition("@")
    if scheme in _WITH_BUCKETS:
        # A key may hold a slash, so that what is left of it looks like a bucket.
        has_key = ":" in place or (bool(at) and scheme not in _WITH_CONTAINER)
    else:
        has_key = ":" in account or (":" in place and "@" in path and not at)
    if has_key or _SECRET.search(query):
        raise BadInput(
            f"{scheme}://…: has a key or password in it; leave it out of the URL, and set it in the environment (for "
            "s3://: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        )


def _of_pyarrow(scheme: str, path: str, query: str, shown: str) -> Location:
    from pyarrow.fs import FileSystem

    quoted = quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path), safe="/%:@!$&'()*+,;=~")
    if scheme in _PATIENT and "retry_limit_seconds" not in query:
        query = "&".join(filter(None, (query, "retry_limit_seconds=20")))
    url = f"{scheme}://{quoted.rstrip('/')}" + (
        f"?{quote(query, safe='=&%:/.,+-_')}" if query else ""
    )
    with _answering(shown):
        fs, inside = FileSystem.from_uri(url)
    return Location(inside.rstrip("/"), shown, fs)


def _of_fsspec(scheme: str, path: str, shown: str) -> Location:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import get_filesystem_class
    except ImportError:
        raise BadInput(
            f"{shown}: pip install 'tribunal-court[stores]', and fsspec's package for {scheme}://"
        ) from None
    try:
        get_filesystem_class(scheme)
    except ImportError as error:
        package = getattr(error.__cause__ or error, "name", None)
        remedy = (
            f"{package} is not installed; pip install {package}"
            if package
            else one_line(str(error))
        )
        raise BadInput(f"{shown}: {remedy}") from None
    except ValueError:
        raise BadInput(
            f"{shown}: {scheme}:// is not known; give a path, s3://, gs:// or what fsspec knows"
        ) from None
    with _answering(shown):
        fs, inside = url_to_fs(shown)
    return Location(inside.rstrip("/"), shown, PyFileSystem(FSSpecHandler(fs)))


@contextmanager
def _answering(shown: str) -> Iterator[None]:
    """Turn what a store's client raises into `Unreachable`, without the keys that it may name."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (a stranger's code, whose errors may be of any kind)
        said = scrub(
            str(error) or type(error).__name__, filter(None, map(os.environ.get, _KEPT_IN))
        )
        reason = one_line(re.sub(r"//[^/@\s]*:[^/@\s]*@", "//", said))[:_LONGEST]
        raise Unreachable(f"{shown}: {reason}") from None


_PIECE = 8 * 1024 * 1024  # bytes
_UNDER_WAY = 4  # pieces on their way to a store


def fetch(location: Location, path: Path, given_up: Callable[[], bool] = lambda: False) -> None:
    """Copy a file of a store to this machine: whole, or not at all.

    Args:
        location: the file.
        path: of the copy.
        given_up: is asked between pieces whether anybody still waits for it.

    Raises:
        Unreachable: the store doesn't give it.
        OSError: there is no room for it.
    """
    with write_atomically(path) as file:
        with _answering(location.shown):
            source = location.fs.open_input_stream(location.path, compression=None)
        with source:
            while True:
                with _answering(location.shown):
                    piece = source.read(_PIECE)
                if given_up():
                    raise Unreachable(
                        f"{location}: was not copied, since another file could not be"
                    )
                if not piece:
                    break
                file.write(piece)


def put_whole(location: Location, file: Path) -> None:
    """Copy a file of this machine to a place, where it is whole or not at all.

    An object of a store is there once all of it has arrived. A process that is killed before leaves nothing there.

    Raises:
        Unreachable: the store doesn't take it.
        OSError: it can't be read, or be written to this machine.
    """
    if location.local_path is not None:
        with write_atomically(location.local_path) as copy, open_regular(file) as source:
            shutil.copyfileobj(source, copy)
        return
    # In a thread of its own, which Ctrl-C leaves alone: a client takes an object whose writing broke off for complete.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_send, location, file).result()


def _send(location: Location, file: Path) -> None:
    with open_regular(file) as source:
        with _answering(location.shown):
            target = location.fs.open_output_stream(location.path, compression=None)
            for number, piece in enumerate(iter(lambda: source.read(_PIECE), b""), start=1):
                target.write(piece)
                if number % _UNDER_WAY == 0:
                    target.flush()  # PyArrow holds in memory what S3 hasn't taken, and would soon hold all of it
            target.close()
            arrived = location.fs.get_file_info(location.path).size or 0
        if arrived != (size := source.tell()):
            raise Unreachable(f"{location}: {arrived:,} of {size:,} bytes arrived; write it again")


def write_whole_at(location: Location, content: bytes) -> None:
    """Write a file of this content to a place, where it is whole or not at all.

    Raises:
        Unreachable: the store doesn't take it.
        OSError: it can't be written to this machine.
    """
    if location.local_path is not None:
        write_whole(location.local_path, content)
        return
    with NamedTemporaryFile(prefix="tribunal-") as file:
        file.write(content)
        file.flush()
        put_whole(location, Path(file.name))
