"""The entries of a comparison: setups, prompt sets and moderation logs, from a TOML file and from options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from tribunal.errors import BadInput
from tribunal.eval.evaluate import name_folder
from tribunal.schema import JSON, Frozen
from tribunal.settings.validation import describe_validation_error, read_toml_model

SHIPPED = "shipped"  # names the prompts that come with the project
MOST_ENTRIES = 12
_LONGEST_NAME = 50
LogColumn = Literal["id", "text", "score", "removed", "encoding"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$")]


class ComparedEntry(Frozen):
    """One row of the comparison.

    Attributes:
        graph: the graph that is run; None: the file's.
        settings: its settings, models among them.
        prompts: its prompt set, a folder or `shipped`; makes the entry a prompt set.
        log: what another system did, a table; makes the entry a moderation log. Nothing is run for it.
        columns: the log's column for each role; a path such as `scores.TOXICITY.value` reads part of an object.
            `encoding` is that of the log's file.
        their_threshold: the log's posts of this score or more were removed; None: its column `removed` tells.
        removed_as: the values of that column that mean removed; empty: plain words for yes and no.
        says: a description, for the reader.
    """

    graph: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    prompts: str | None = None
    log: Path | None = None
    columns: dict[LogColumn, str] = Field(default_factory=dict)
    their_threshold: float | None = None
    removed_as: tuple[str, ...] = ()
    says: str = ""

    @model_validator(mode="after")
    def _check_kind(self) -> ComparedEntry:
        of_a_run = [name for name in ("graph", "settings", "prompts") if getattr(self, name)]
        of_a_log = [
            name for name in ("columns", "their_threshold", "removed_as") if getattr(self, name)
        ]
        if self.log is not None and of_a_run:
            raise ValueError(
                f"{of_a_run[0]}: nothing is run for a log; leave it out, or leave out log"
            )
        if self.log is None and of_a_log:
            raise ValueError(f"{of_a_log[0]}: reads a log; add log, or leave it out")
        return self

    @property
    def kind(self) -> Literal["setup", "prompts", "log"]:
        """Return what the entry is."""
        return "log" if self.log is not None else "prompts" if self.prompts is not None else "setup"


class Entries(Frozen):
    """All entries of a comparison; the first is the one that the others are compared with.

    Attributes:
        entries: by name, which is also the name of the run's folder.
        graph: the graph of entries that name none.
        settings: shared by all runs; an entry's own settings override them.
        seconds_per_case: how long a reviewer takes for a case.
    """

    entries: dict[Name, ComparedEntry] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    graph: str = "tribunal"
    settings: dict[str, Any] = Field(default_factory=dict)
    seconds_per_case: float = Field(default=30.0, gt=0, le=86_400)

    @property
    def runs(self) -> dict[str, ComparedEntry]:
        """Return the entries that are run: setups and prompt sets."""
        return {name: entry for name, entry in self.entries.items() if entry.kind != "log"}

    @property
    def logs(self) -> dict[str, ComparedEntry]:
        """Return the moderation logs."""
        return {name: entry for name, entry in self.entries.items() if entry.kind == "log"}

    def graph_of(self, entry: ComparedEntry) -> str:
        """Return the graph of an entry that is run."""
        return entry.graph or self.graph

    def prompts_of(self, entry: ComparedEntry) -> str | None:
        """Return the prompt set of its own that an entry names, under `prompts` or among its settings."""
        return entry.prompts or entry.settings.get("prompts")

    def settings_of(self, entry: ComparedEntry) -> JSON:
        """Return the settings of an entry that is run."""
        prompts = {} if entry.prompts in (None, SHIPPED) else {"prompts": entry.prompts}
        return {**self.settings, **entry.settings, **prompts}


def log_entry(
    log: Path | None,
    columns: Mapping[str, str],
    their_threshold: float | None,
    removed_as: Sequence[str],
) -> ComparedEntry | None:
    """Return the moderation log that options describe, or None; raise `BadInput` if one of them is wrong."""
    values = {
        "columns": columns,
        "their_threshold": their_threshold,
        "removed_as": tuple(removed_as),
    }
    given = {name: value for name, value in values.items() if value not in (None, {}, ())}
    if log is None and not given:
        return None
    try:
        return ComparedEntry.model_validate({"log": log, **given})
    except ValidationError as error:
        raise BadInput(f"log: {describe_validation_error(error)}") from None


def read_entries(
    path: Path | None,
    *,
    prompts: Sequence[str],
    log: ComparedEntry | None,
    graph: str | None,
    settings: JSON,
) -> Entries:
    """Return the entries of a file, then those of the options.

    Args:
        path: the file; None: there are only those of the options. Its relative paths begin at its folder.
        prompts: prompt sets, folders or `shipped`.
        log: a moderation log.
        graph: replaces the file's graph.
        settings: replace the file's shared settings, one by one.

    Raises:
        BadInput: the file can't be read, or lacks or misnames something; or a name is used twice.
    """
    file = Entries() if path is None else _read_file(path)
    entries = dict(file.entries)
    for folder in prompts:
        name = (
            folder
            if folder == SHIPPED
            else name_folder(Path(folder).resolve().name, _LONGEST_NAME).lstrip("_.-+=")
        )
        _add_entry(entries, name, ComparedEntry(prompts=folder))
    if log is not None:
        _add_entry(entries, "log", log)
    values = {
        **dict(file),
        "entries": entries,
        "graph": graph or file.graph,
        "settings": {**file.settings, **settings},
    }
    try:
        found = Entries.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"entries: {describe_validation_error(error)}") from None
    if "prompts" in found.settings and any(entry.prompts for entry in found.entries.values()):
        raise BadInput(
            "prompts: entries name prompts of their own; leave it out of the shared settings (--set)"
        )
    return found


def _read_file(path: Path) -> Entries:
    file = read_toml_model(Entries, path, "setups")
    entries = {}
    for name, entry in file.entries.items():
        places: JSON = {} if entry.log is None else {"log": path.parent / entry.log.expanduser()}
        if entry.prompts not in (None, SHIPPED):
            places["prompts"] = str(path.parent / Path(str(entry.prompts)).expanduser())
        entries[name] = entry.model_copy(update=places)
    return file.model_copy(update={"entries": entries})


def _add_entry(entries: dict[str, ComparedEntry], name: str, entry: ComparedEntry) -> None:
    if name in entries:
        raise BadInput(
            f"{entry.kind}: {name}: is the name of two entries; rename a folder, or name both in a file"
        )
    entries[name] = entry
