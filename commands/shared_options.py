"""Options that several commands share, and the shell completion of their values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tribunal.errors import BadInput

if TYPE_CHECKING:
    from tribunal.plugins import Group


def _complete(place: str, group: Group | None = None) -> Callable[[str], list[str]]:
    """Return a function that completes a name; it offers none if the names can't be read.

    Args:
        place: names, or a function that returns them, as `module:name`.
        group: the entry points whose names are offered too.
    """

    def offer(incomplete: str) -> list[str]:
        from tribunal import plugins

        module, _, name = place.partition(":")
        try:
            held = getattr(import_module(f"tribunal.{module}"), name)
            names = [
                *(held() if callable(held) else held),
                *(plugins.names(group) if group else ()),
            ]
        except (BadInput, OSError):  # a shell that waits for a word has no use for an error
            return []
        return [each for each in names if each.startswith(incomplete)]

    return offer


graph_names = _complete("graphs:GRAPHS", "tribunal.graphs")
policy_names = _complete("prompts.policy:list_shipped_policies")
protocol_names = _complete("eval.protocols.protocol:load_protocols")
experiment_names = _complete("eval.protocols.protocol:load_protocols")
perspective_names = _complete("retrievers.perspectives.store:list_perspectives")
precedent_names = _complete("retrievers.precedents.store:list_stores")
_dataset_names = _complete("eval.datasets:DATASETS", "tribunal.datasets")


def dataset_names(incomplete: str) -> list[str]:
    """Offer names for the last of several sets that are joined by +."""
    before, plus, last = incomplete.rpartition("+")
    return [
        f"{before}{plus}{each}" for each in _dataset_names(last) if each not in before.split("+")
    ]


def perspective_list(incomplete: str) -> list[str]:
    """Offer names for the last of several that are separated by commas; for the only one `all` and `none`, too."""
    before, comma, last = incomplete.rpartition(",")
    offered = [each for each in perspective_names(last) if each not in before.split(",")]
    if not comma:
        offered += [each for each in ("all", "none") if each.startswith(last)]
    return [f"{before}{comma}{each}" for each in offered]


KEEPING_SECTION = "Keeping"
DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
_DATABASE = "The database: postgresql://user@host/name. Default: a SQLite file in the data folder."

AsJson = Annotated[bool, Option("--json", help="Print JSON, and nothing else.")]
JsonLines = Annotated[bool, Option("--json", help="Print each entry as a line of JSON.")]
Yes = Annotated[bool, Option("--yes", help="Don't ask before going on.")]

# Cases

Database = Annotated[
    str | None,
    Option(
        "--database", envvar="TRIBUNAL_DATABASE", metavar="URL", show_default=False, help=_DATABASE
    ),
]
Since = Annotated[
    datetime | None,
    Option(metavar="DATE", formats=DATES, help="Only cases decided at or after this time (UTC)."),
]
Until = Annotated[
    datetime | None,
    Option(metavar="DATE", formats=DATES, help="Only cases decided before this time (UTC)."),
]
Keep = Annotated[
    bool | None,
    Option(
        "--keep/--no-keep",
        show_default=False,
        rich_help_panel=KEEPING_SECTION,
        help="Keep the case for tribunal cases. Default: TRIBUNAL_KEEP, else only with --review.",
    ),
]
KeepText = Annotated[
    bool | None,
    Option(
        "--keep-text/--no-keep-text",
        show_default=False,
        rich_help_panel=KEEPING_SECTION,
        help="Keep the words too, not only their hash. Default: yes.",
    ),
]
KeepIn = Annotated[
    str | None,
    Option(
        "--database",
        envvar="TRIBUNAL_DATABASE",
        metavar="URL",
        show_default=False,
        rich_help_panel=KEEPING_SECTION,
        help="postgresql://… Default: a SQLite file.",
    ),
]

# Runs

InFlight = Annotated[
    int, Option("--concurrency", min=1, max=1024, help="Posts in flight, at most.")
]
KeepTexts = Annotated[bool, Option("--keep-text", help="Write the posts' texts into the results.")]
Retry = Annotated[
    list[str] | None,
    Option(help="Decide posts with this outcome again: failures or refusals; may be given again."),
]
PriceTable = Annotated[
    Path | None, Option("--prices", metavar="FILE", help="A TOML file of prices, by model.")
]
RunPrices = Annotated[
    Path | None,
    Option(
        "--prices",
        metavar="FILE",
        help="A TOML file of prices, by model. Default: the prices that each run was last given.",
    ),
]
PaperModels = Annotated[
    bool,
    Option(
        "--paper-models",
        help="Use the models of the paper wherever it names one and you name none.",
    ),
]
Cluster = Annotated[
    str | None,
    Option(
        metavar="FIELD",
        help="The field by which posts belong together (template, thread, author, …) and count as one; or post, or "
        "near-duplicates. Default: what the data set declares, else near-duplicates.",
    ),
]

# Decisions

Clauses = Annotated[
    list[str] | None,
    Option(
        "--clause",
        metavar="ID",
        help="A clause of the policy that the decision rests on; may be given again.",
    ),
]

# Data sets

Split = Annotated[
    str | None,
    Option(
        help="The split, if not the usual one; of a table, the rows whose column split has this value."
    ),
]
Labels = Annotated[
    list[str] | None,
    Option(
        metavar="VALUE=LABEL",
        help="Of a table: what a label's value means: hate, not, or a category.",
    ),
]
Columns = Annotated[
    list[str] | None,
    Option(
        metavar="ROLE=NAME",
        help="Of a table: the column of text, id, label, image, language, earlier, group, split; or its encoding "
        "(encoding=cp1252). Of any set: image= judges posts by their text alone.",
    ),
]
Unlabelled = Annotated[
    bool,
    Option(
        "--unlabelled",
        help="The posts of a table have no labels; without it, a label column is needed.",
    ),
]
Encoding = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="Of a CSV, TSV or JSON file: its encoding, such as cp1252. Default: UTF-8.",
    ),
]
Samples = Annotated[
    int | None,
    Option(min=1, help="How many posts, drawn by the seed. Default: all, or as many as the paper."),
]
Repeats = Annotated[
    int | None,
    Option(
        min=1, help="How often each post is decided, drawn anew. Default: as in the paper, else 1."
    ),
]
Seed = Annotated[
    int | None, Option(min=0, help="Another seed draws other posts in another order. Default: 0.")
]
SkipMissingImages = Annotated[
    bool,
    Option(
        "--skip-missing-images", help="Leave out the posts whose image is missing, and count them."
    ),
]
