"""Texts that a case is tried by: a policy, a set of prompts, a line-up, a fitted threshold.

They lie in the case, so that a file that is edited, moved or deleted since changes nothing for it. This process knows
them by their hash: those that it has read from the operator's files, and those that it has met in a case.

Within `keep_files_read` a file that is named is read once: a run ends with what it began with.

A line-up says who sits in which seat, under a name, in a small TOML file: `views`, `[seats]`, `[temperatures]` and
`[extra_body]`. Those of the papers are shipped.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from tribunal.core.text import parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.process.files import read_regular, write_whole
from tribunal.settings.context import Context, context_from
from tribunal.settings.environment import data_folder
from tribunal.settings.systems import resource
from tribunal.trust import check_words, for_clients

Kind = Literal["policy", "prompts", "line_up", "threshold_file"]
_MOST = 512  # texts that are remembered of those met in cases
_from_files: set[tuple[Kind, str]] = set()
_met: OrderedDict[tuple[str, str], str] = OrderedDict()


def remember_text(kind: str, sha: str, text: str) -> None:
    """Remember a text by the hash that records name it by."""
    _met[kind, sha] = text
    _met.move_to_end((kind, sha))
    while len(_met) > _MOST:
        _met.popitem(last=False)


def remembered_text(kind: str, sha: str) -> str | None:
    """Return a text by the hash that records name it by, if this process has met it."""
    return _met.get((kind, sha))


class NamedTexts:
    """The texts that a setting names: shipped texts by name, and the operator's files by path."""

    def __init__(
        self,
        kind: Kind,
        form: str,
        check: Callable[[str, str], object],
        way_out: str,
        shipped: str | None = None,
    ) -> None:
        """Describe the texts.

        Args:
            kind: the setting.
            form: the format of the files: TOML or JSON.
            check: is called with a text and its name, and raises `BadInput` if the text is none of these.
            way_out: the advice of an error; `{names}` are the shipped names.
            shipped: the folder of the shipped texts, as `package:folder`.
        """
        self._kind = kind
        self._form = form
        self._check = check
        self._way_out = way_out
        self._shipped = shipped
        self._held: dict[str, str] = {}

    @cached_property
    def shipped_names(self) -> list[str]:
        """Return the names of the shipped texts."""
        listed = resource(self._shipped).iterdir() if self._shipped else ()
        return sorted(
            each.name.removesuffix(".toml") for each in listed if each.name.endswith(".toml")
        )

    def read(self, name: str) -> str:
        """Return the text of this name. Blocks: call it off the event loop.

        Raises:
            BadInput: the file can't be read, or is something else.
        """
        return read_once((self._kind, name), lambda: self._read_and_note(name))

    def _read_and_note(self, name: str) -> str:
        text = self.read_place(name)
        note_own_text(self._kind, text)
        return text

    def read_place(self, name: str) -> str:
        """Return the current text of this name, checked."""
        try:
            if name in self.shipped_names:
                raw = resource(f"{self._shipped}/{name}.toml").read_bytes()
            else:
                raw = read_regular(Path(name).expanduser())
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{self._kind}: {name}: not a {self._form} file: {error}") from error
        except (OSError, ValueError, RuntimeError) as error:
            near = suggest_name(name, self.shipped_names)
            way = self._way_out.format(names=", ".join(self.shipped_names))
            reason = getattr(error, "strerror", None) or error
            raise BadInput(
                f"{self._kind}: {name}: {reason}; {f'{near} Or ' if near else ''}{way}"
            ) from error
        self._check(text, name)
        return text

    async def load(self, name: str, *, afresh: bool = False) -> str:
        """Return the text of this name, read off the event loop and once.

        Args:
            name: of a shipped one, or a path.
            afresh: read a file even if it was read before, so that every post starts from its current text.

        Raises:
            BadInput: as `read`.
        """
        if name not in self._held or (afresh and name not in self.shipped_names):
            self._held[name] = await asyncio.to_thread(self.read, name)
        return self._held[name]

    async def text_of_case(self, case: Mapping[str, Any] | None, name: str) -> str:
        """Return the text stored in a case, or the file's text if the case began without one.

        Args:
            case: its state; None: there is no case yet.
            name: the case's name for the text.

        Raises:
            BadInput: the stored value is no text, or a client of this server may not set it; or as `read`.
        """
        held = (case.get("context") or {}).get(self._kind) if case is not None else None
        if held is None:
            return await self.load(name)
        text = self.text_from(held)
        if for_clients() and (self._kind, _hash_text(text)) not in _from_files:
            with suppress(
                BadInput
            ):  # this process may not have read the file yet, and the file may be gone
                await self.load(name, afresh=True)
            if not await asyncio.to_thread(_is_own_text, self._kind, text):
                check_words(self._kind, name)
        return text

    def text_from(self, held: Any) -> str:
        """Return the text stored in a case.

        Raises:
            BadInput: the stored value is no text.
        """
        if not isinstance(held, str):
            raise BadInput(
                f"context.{self._kind}: {type(held).__name__}: is no text; give the whole text of its file"
            )
        return held


def note_own_text(kind: Kind, text: str) -> None:
    """Note that the operator's own file holds this text. Blocks: call it off the event loop.

    A server notes it in the data folder too, so that it knows the text in a case again once it has been started anew
    and the file is another.
    """
    _from_files.add((kind, _hash_text(text)))
    if for_clients():
        path = _note_path(kind, text)
        with suppress(OSError):  # then the text counts for as long as this process lives
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_whole(path, text.encode("utf-8", "surrogatepass"))


def _is_own_text(kind: Kind, text: str) -> bool:
    """Return whether a file of the operator had this text: a file read by this process, or by an earlier process."""
    if (kind, _hash_text(text)) in _from_files:
        return True
    try:
        return read_regular(_note_path(kind, text)) == text.encode("utf-8", "surrogatepass")
    except (OSError, ValueError):
        return False


def _note_path(kind: Kind, text: str) -> Path:
    return data_folder() / "contents" / f"{kind}-{_hash_text(text)}"


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


Thing = TypeVar("Thing")
# Tasks and threads that are started within see the same things.
_opened: ContextVar[dict[Hashable, Any] | None] = ContextVar("opened", default=None)


@contextmanager
def keep_files_read() -> Iterator[None]:
    """Keep everything that is read by name from now on. Inside another block, the outer block's files are used."""
    if _opened.get() is not None:
        yield
        return
    token = _opened.set({})
    try:
        yield
    finally:
        _opened.reset(token)


def read_once(key: Hashable, read: Callable[[], Thing]) -> Thing:
    """Return the value that was read under this key within `keep_files_read`, or the current result of `read`.

    Raises:
        Exception: any exception of `read`; nothing is kept then.
    """
    held = _opened.get()
    if held is None:
        return read()
    if key not in held:
        held.setdefault(key, read())
    thing: Thing = held[key]
    return thing


FIELDS = ("seats", "temperatures", "views", "extra_body")
Setting = TypeVar("Setting")


async def apply_line_up(
    context: Context, case: Mapping[str, Any] | None = None, *, afresh: bool = False
) -> Context:
    """Return the context with its line-up filled in; the run's own settings override the line-up's.

    Args:
        context: the settings of a run.
        case: a case that has begun: its stored line-up is used.
        afresh: read the file even if it was read before, so that every post starts from its current text.

    Raises:
        BadInput: there is no such line-up, the file can't be read, or isn't a line-up; or a client of this server may
            not set what lies in the case.
    """
    name = context.line_up
    if name is None:
        return context
    loaded = LINE_UPS.load(name, afresh=True) if afresh else LINE_UPS.text_of_case(case, name)
    return apply_line_up_text(context, await loaded)


def apply_line_up_text(context: Context, text: str) -> Context:
    """Return the context with the line-up of this text filled in.

    Raises:
        BadInput: the text is none of a line-up.
    """
    line_up = _parse_line_up(text, context.line_up or "")
    return context.model_copy(
        update={
            "seats": _merge_seats(line_up.seats, context.seats),
            "temperatures": _merge_seats(line_up.temperatures, context.temperatures),
            "views": context.views or line_up.views,
            "extra_body": line_up.extra_body | context.extra_body,
        }
    )


def _merge_seats(named: dict[str, Setting], own: dict[str, Setting]) -> dict[str, Setting]:
    """Put a run's own settings over a file's; one for a whole kind (`view`) beats the file's for one of it."""
    return {
        **{seat: value for seat, value in named.items() if seat.partition(":")[0] not in own},
        **own,
    }


@lru_cache(maxsize=64)
def _parse_line_up(text: str, name: str) -> Context:
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise BadInput(
            f"line_up: {name}: not a TOML file: {error}; give a TOML file with [seats]"
        ) from error
    unknown = next((field for field in values if field not in FIELDS), None)
    if unknown:
        raise BadInput(
            f"line_up: {name}: {unknown}: a line-up has none; it has {', '.join(FIELDS)}"
        )
    try:
        return context_from(values)
    except BadInput as error:
        raise BadInput(f"line_up: {name}: {error}") from error


LINE_UPS = NamedTexts(
    "line_up",
    "TOML",
    _parse_line_up,
    "give a TOML file with [seats], or a shipped line-up: {names}",
    "tribunal:line_ups",
)
