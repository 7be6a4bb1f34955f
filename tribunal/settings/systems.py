"""Custom systems, and all seats: a graph's description of itself, by which it is treated like a built-in graph.

A system lives in a package of its own, whose `pyproject.toml` names its compiled graph (docs/systems_of_your_own.md):

    [project.entry-points."tribunal.graphs"]
    two_annotators = "two_annotators.court:graph"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import create_model

from tribunal.core.text import suggest_name
from tribunal.errors import BadInput
from tribunal.plugins import import_regular_package
from tribunal.settings.base import COMPOSED, GRAPH_SETTINGS, PLACES, EveryGraph
from tribunal.settings.context import Context, settings_of
from tribunal.settings.graph_settings import GRAPHS, SETTINGS, PieceSettings
from tribunal.settings.names import Mode
from tribunal.settings.setting import SETTABLE_SEATS

# Settings that `receive`, `seat`, `verdict` and `ask` may heed by themselves.
OF_ANY_AGENT = frozenset(
    {"policy_definition", "scheme", "judge_model", "aux_model", "max_calls", "max_tokens"}
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PROMPT = re.compile(r"[a-z][a-z0-9_]*/_?[a-z][a-z0-9_-]*")
_NO_PROMPTS = ("README", "LICENSE", "NOTICE")  # files that may lie beside prompts
# Folders of our own prompts; `own` is for those that a seat is given as text or file.
OUR_PROMPTS = ("court", "exam", "explained", "own", "peers", "system")
_SEAT = re.compile(r"[a-z][a-z0-9_-]*(:[a-z0-9_-]+)?")
_systems: dict[str, System] = {}


@dataclass(frozen=True)
class System:
    """A custom system. Creating one registers it: its seats can be set, and its prompts can be used.

    Attributes:
        name: what users call its graph, and the name that the graph is compiled under.
        about: one line on its purpose, for lists.
        seats: who may be asked in it, by name. Of several of a kind, such as `annotator:left`, the kind.
        heeds: the settings that it uses beside those of every graph (docs/settings.md). Another setting is
            refused.
        prompts: the folder of its prompts, as a path or as `package:folder`. A file `annotate.md` there is the prompt
            `NAME/annotate`, and `system.md` holds its standing instructions, `system/NAME`. The name of a file has
            small letters, digits, - and _; with a _ in front it is a part that other prompts include.
        experiments: the folder of its experiments (`*.toml`), as a path or as `package:folder`.

    Raises:
        BadInput: a name is no plain name or is taken, a setting doesn't exist, or the prompts can't be read.
    """

    name: str
    about: str
    seats: tuple[str, ...]
    heeds: tuple[str, ...] = ()
    prompts: str | Path | None = None
    experiments: str | Path | None = None

    def __post_init__(self) -> None:
        """Check and register it."""
        if not _NAME.fullmatch(self.name) or self.name in (*GRAPHS, *OUR_PROMPTS):
            raise BadInput(
                f"system: {self.name!r}: can't be the name of a system; give small letters, digits and underscores, "
                f"and none of {', '.join((*GRAPHS, *OUR_PROMPTS))}"
            )
        for stem in self._read_prompt_files():
            check_prompt_name(f"system: {self.name}: prompts: {stem}.md", f"{self.name}/{stem}")
        check_heeded(f"system: {self.name}", self.heeds)
        register_seats(self.seats)
        _systems[self.name] = self
        GRAPH_SETTINGS[self.name] = derive_settings(
            self.name, {*OF_ANY_AGENT, *self.heeds}, self.seats
        )
        GRAPH_SETTINGS[self.name].about = self.about

    def read_prompts(self) -> dict[str, str]:
        """Return the text of each of its prompts by name.

        Raises:
            BadInput: the folder can't be read, or holds no prompt.
        """
        texts = self._read_prompt_files()
        return {
            f"system/{self.name}" if stem == "system" else f"{self.name}/{stem}": text
            for stem, text in texts.items()
        }

    def _read_prompt_files(self) -> dict[str, str]:
        """Return the text of each file of prompts by its name without `.md`. Raises as `read_prompts`."""
        if self.prompts is None:
            return {}
        read = _read_folder(self.prompts, ".md", f"system: {self.name}: prompts")
        texts = {
            stem: text.strip() for stem, text in read.items() if stem.upper() not in _NO_PROMPTS
        }
        if not texts:
            raise BadInput(
                f"system: {self.name}: prompts: {self.prompts}: holds no prompt; put NAME.md files there"
            )
        return texts

    def read_experiments(self) -> dict[str, str]:
        """Return the text of each of its experiments by name.

        Raises:
            BadInput: the folder can't be read.
        """
        field = f"system: {self.name}: experiments"
        return {} if self.experiments is None else _read_folder(self.experiments, ".toml", field)


def check_prompt_name(declared_by: str, name: str) -> None:
    """Check the name of a prompt, as a `System` or a `seat` declares it.

    Args:
        declared_by: the beginning of the error.
        name: the name.

    Raises:
        BadInput: it doesn't keep to the rule.
    """
    if not _PROMPT.fullmatch(name):
        raise BadInput(
            f"{declared_by}: {name!r} can't be the name of a prompt; a name is SYSTEM/PROMPT, in small letters, "
            "digits, - and _; give a Path for a file"
        )


def check_heeded(declared_by: str, names: Iterable[str]) -> None:
    """Check that settings can be declared as heeded. `mode` can't: it names the variants of our own systems.

    Args:
        declared_by: the beginning of the error.
        names: the settings.

    Raises:
        BadInput: there is no such setting.
    """
    unknown = next((name for name in names if name not in SETTINGS or name == "mode"), None)
    if unknown:
        way = suggest_name(unknown, SETTINGS) or "docs/settings.md has the settings"
        raise BadInput(
            f"{declared_by}: heeds {unknown!r}, which is no setting that it can heed; {way}"
        )


class _DerivedSettings(EveryGraph):
    """The settings of a user's graph: the settings of its pieces, with the rules of our own pieces."""

    def idle_settings(self) -> Iterator[tuple[Iterable[str], str]]:
        """Yield the settings without an effect, by our pieces' rules. Settings that the graph lacks have defaults."""
        yield from PieceSettings.model_construct(**dict(self)).idle_settings()


def derive_settings(
    graph: str,
    heeded: Iterable[str],
    seats: Sequence[str],
    *,
    modes: Sequence[Mode] = ("full",),
    heeding: Mapping[str, Sequence[str]] | None = None,
) -> type[EveryGraph]:
    """Return the settings class of a graph of the user.

    Args:
        graph: its name in refusals.
        heeded: the settings that it uses beside those of every graph.
        seats: who may be asked in it; empty: unknown.
        modes: the modes that it can run in.
        heeding: the nodes that heed each setting, by the setting's name.
    """
    own = {*heeded} - EveryGraph.model_fields.keys()
    fields: dict[str, Any] = {
        name: (field.annotation, copy(field))
        for name, field in Context.model_fields.items()
        if name in own
    }
    settings = create_model(f"Settings of {graph}", __base__=_DerivedSettings, **fields)
    settings.graph = graph
    settings.is_ours = False
    settings.seated = tuple(seats)
    settings.modes = tuple(modes)
    settings.heeding = heeding or {}
    return settings


def system_of(graph: str) -> System | None:
    """Return the system that a graph belongs to; None for a graph that has none.

    Args:
        graph: the system's name, or the place by which `tribunal.graphs.graph` has loaded its graph.
    """
    return _systems.get(PLACES.get(graph, graph))


def note_place(graph: str, called: str, settings: object) -> None:
    """Remember the name and the settings of the graph of a place, so that `system_of` and `settings_of` find them.

    Args:
        graph: the place.
        called: the name that the graph was compiled under.
        settings: its `context_schema`.
    """
    PLACES[graph] = called
    if (
        isinstance(settings, type)
        and issubclass(settings, _DerivedSettings)
        and called not in _systems
    ):
        COMPOSED[graph] = settings


def systems() -> list[System]:
    """Return the systems of this process, by name."""
    return [_systems[name] for name in sorted(_systems)]


def resource(place: str | Path) -> Traversable:
    """Return the file or folder of a place.

    Args:
        place: a path, or `package:path` inside an installed package.

    Raises:
        BadInput: there is no such package.
    """
    package, colon, inside = str(place).partition(":")
    if isinstance(place, Path) or not colon:
        return Path(place).expanduser()
    try:
        import_regular_package(package.partition(".")[0])
        return files(package).joinpath(inside)
    except (ImportError, TypeError, ValueError) as error:
        raise BadInput(f"{place}: can't be read: {error}; give a path, or package:path") from error


def _read_folder(folder: str | Path, suffix: str, field: str) -> dict[str, str]:
    """Return the texts of the files of a folder that end so, by their names without it."""
    try:
        files = sorted(
            (each.name, each) for each in resource(folder).iterdir() if each.name.endswith(suffix)
        )
        return {name.removesuffix(suffix): file.read_text("utf-8") for name, file in files}
    except OSError as error:
        raise BadInput(
            f"{field}: {folder}: can't be read: {error.strerror or error}; give a folder"
        ) from error


def register_seats(names: Iterable[str]) -> None:
    """Let the seats of a custom graph be set like ours.

    Raises:
        BadInput: one is no plain name.
    """
    for name in names:
        if not _SEAT.fullmatch(name):
            raise BadInput(
                f"seat: {name!r}: can't be a seat's name; give small letters, digits, - and _"
            )
        SETTABLE_SEATS[name.partition(":")[0]] = True


def seats_in(graph: str) -> tuple[str, ...]:
    """Return who may sit in a graph: one of ours, or that of a `System`; nobody if that isn't known."""
    return settings_of(graph).seated
