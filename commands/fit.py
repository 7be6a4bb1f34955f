"""`tribunal fit`: the confidence from which verdicts can be trusted, fitted on labelled posts or on reviewed cases."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tribunal.commands.printing import print_template, report_write_errors
from tribunal.commands.shared_options import Cluster, Database, Since
from tribunal.errors import BadInput

if TYPE_CHECKING:
    from tribunal.nodes.threshold import Threshold
    from tribunal.schema import JSON
    from tribunal.store.engine import Store


def fit(
    source: Annotated[
        Path | None,
        Argument(
            metavar="[DIR|FILE]",
            help="A run over labelled posts, or over posts that people decided at the desk; or what tribunal review "
            "export wrote.",
        ),
    ] = None,
    agreement: Annotated[
        float, Option(help="At least this share of accepted verdicts agrees with the gold.")
    ] = 0.95,
    level: Annotated[float, Option(help="The confidence level of the promise.")] = 0.9,
    missed_hate: Annotated[
        float | None,
        Option(
            metavar="SHARE", help="At most this share of accepted verdicts of no hate is wrong."
        ),
    ] = None,
    false_alarms: Annotated[
        float | None,
        Option(metavar="SHARE", help="At most this share of accepted verdicts of hate is wrong."),
    ] = None,
    cluster: Cluster = None,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Default: threshold.json in DIR, or in the working folder."),
    ] = None,
    reviewed: Annotated[
        bool,
        Option(
            "--reviewed", help="Fit on the cases that people decided, from the service's database."
        ),
    ] = False,
    since: Since = None,
    of_graph: Annotated[
        str | None, Option(metavar="GRAPH", help="Only reviewed cases of this graph.")
    ] = None,
    policy_sha: Annotated[
        str | None, Option(metavar="SHA", help="Only reviewed cases of this policy.")
    ] = None,
    database: Database = None,
) -> None:
    """Fit the confidence threshold at which verdicts agree with people as often as you want.

    A run takes the file as --threshold FILE. Each fit on the same results is counted beside them, and tested
    more strictly.
    """
    from tribunal.commands.run_options import print_warning
    from tribunal.nodes.threshold import counted_as
    from tribunal.process.files import write_whole

    if reviewed == (source is not None):
        raise BadInput(
            "fit: give the folder of a run, an exported file, or --reviewed, and one of them"
        )
    chosen: dict[str, Any] = {
        "agreement": agreement, "level": level, "missed_hate": missed_hate, "false_alarms": false_alarms,
    }  # fmt: skip
    only = {"graph": of_graph, "policy_sha": policy_sha}
    if source is not None and source.is_dir():
        if since is not None or any(only.values()):
            raise BadInput(
                "fit: --since, --of-graph and --policy-sha choose among reviewed cases; leave them out"
            )
        usual = source / "threshold.json"
        labelled = _has_labels(source)
    else:
        usual = Path("threshold.json")
        labelled = False
    if labelled and source is not None:
        from tribunal.eval.measures.fit import fit_threshold as fitted

        threshold = fitted(source, **chosen, cluster=cluster)
    else:
        only["cluster"] = cluster
        threshold = _fit_reviewed_cases(source, since, database, chosen, only)
    path = out or usual
    with report_write_errors(path):
        write_whole(path, threshold.model_dump_json(indent=2) + "\n")
    for warning in threshold.warnings:
        print_warning(warning)
    print_template(
        "fit",
        threshold=threshold,
        gold="the gold" if labelled else "what people decided",
        posts=counted_as(threshold.n_fit, threshold.clusters),
        path=str(path),
    )


def _has_labels(folder: Path) -> bool:
    """Return whether a run has a labelled post, or no result at all, which its own fit reports."""
    from tribunal.runner.results import read_results

    results = read_results(folder)
    first = next(results, None)
    return (
        first is None
        or first.result.gold is not None
        or any(each.result.gold is not None for each in results)
    )


def _fit_reviewed_cases(
    source: Path | None,
    since: datetime | None,
    database: str | None,
    chosen: dict[str, Any],
    only: dict[str, Any],
) -> Threshold:
    from tribunal.commands.database import epoch_seconds
    from tribunal.eval.measures.fit_reviewed import fit_reviewed
    from tribunal.eval.measures.risk_control import FITS, AgreementPromise
    from tribunal.settings.environment import data_folder

    wanted = AgreementPromise(**chosen)

    if source is not None and source.is_dir():
        decisions = _decisions_of_run(source, database)
        called = source.name
        ledger = data_folder() / FITS
    elif source is not None:
        if since is not None:
            raise BadInput("since: chooses from the database; the file holds what was exported")
        decisions = _decisions_of_file(source)
        called = source.name
        ledger = source.with_name(f"{source.name}.{FITS}")
    else:
        from tribunal.commands.database import require_service, run_in_store

        require_service()
        decisions = run_in_store(
            database, lambda store: _decisions_of_database(store, epoch_seconds(since))
        )
        called = "reviewed cases" + (f" since {since:%Y-%m-%d}" if since is not None else "")
        ledger = data_folder() / FITS
    return fit_reviewed(decisions, wanted, fitted_from=called, ledger=ledger, **only)


def _decisions_of_file(source: Path) -> list[JSON]:
    from tribunal.eval.datasets import open_dataset

    decisions = []
    for sample in open_dataset("table", source, columns={"image": ""}):
        held = {"id": sample.id, "text": sample.text, **sample.fields}
        lost = next(
            (
                name
                for name in ("court_confidence", "court_category", "category")
                if name not in held
            ),
            None,
        )
        if lost:
            raise BadInput(
                f"{source}: has no column {lost}; give the folder of a run, or tribunal review export's file"
            )
        decisions.append({name: held.get(name) for name in (*_READ, "text")})
    return decisions


_READ = (
    "id", "category", "label", "scheme", "reason", "court_outcome", "court_category", "court_hateful",
    "court_confidence", "rehearsed", "graph", "policy_sha", "line_up",
)  # fmt: skip


def _decisions_of_run(folder: Path, database: str | None) -> list[JSON]:
    """Return what people have decided of the posts of a run, at the desk or by command."""
    from tribunal.commands.database import require_service, run_in_store
    from tribunal.runner.journal import RESULTS, parse_result, read_line_starts

    require_service()
    lines = (
        parse_result(folder / RESULTS, each.line, each.offset)
        for each in read_line_starts(folder / RESULTS)
    )
    ids = {case for line in lines if (case := line.get("thread") or line.get("kept"))}
    of_all = (
        run_in_store(database, lambda store: _decisions_of_database(store, None)) if ids else []
    )
    decisions = [each for each in of_all if each["id"] in ids]
    if not decisions:
        raise BadInput(
            f"{folder}: 0 labelled posts, and people have decided none of its posts; give a run over a data set with "
            "labels, decide some posts at the desk (a run with --review), or take all decided cases (--reviewed)"
        )
    return decisions


async def _decisions_of_database(store: Store, since: float | None) -> list[JSON]:
    """Return what people decided and how sure the court was, of posts that were erased, too."""
    from tribunal.review.case_tables import case_row, cases_decided_by_people

    decisions = []
    async for row in cases_decided_by_people(store, since):
        held = case_row(row)
        decisions.append(
            {**{name: held[name] for name in _READ}, "text": (row["post"] or {}).get("text")}
        )
    return decisions
