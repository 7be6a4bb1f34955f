"""`tribunal seal` and `verify`: a run in one archive, and whether anything in it was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tribunal.commands.shared_options import AsJson
from tribunal.errors import BadInput
from tribunal.terminal import say, say_json


def seal(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished run, or of an experiment.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The archive. Default: the folder's name with .zip.")
    ] = None,
    texts: Annotated[
        bool,
        typer.Option(
            "--texts/--no-texts",
            help="Pack the posts' words, reports and exports where the data set's licence allows it, else hashes of "
            "the words. Explanations and the set's own fields may quote posts in any case.",
        ),
    ] = False,
) -> None:
    """Pack a run or an experiment into one archive, with model cards and data statements, and seal it by hash.

    Publish the hash that it prints: it tells the archive from one that was changed and sealed again.
    """
    from tribunal.eval.seal.archive import seal_run
    from tribunal.eval.seal.verification import verify_run

    if not folder.is_dir():
        raise BadInput(f"{folder}: not the folder of a run; give tribunal eval's --out")
    if fault := verify_run(folder).fault:
        raise BadInput(f"{folder}: {fault}; a run that was changed can't be sealed")
    archive = out or folder.resolve().with_name(f"{folder.resolve().name}.zip")
    own = seal_run(folder, archive, texts=texts)
    say(f"{archive}: seal {own}")


def verify(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR|FILE", help="The folder of a run or an experiment, a sealed archive, or the output of a batch."
        ),
    ],
    seal: Annotated[
        str | None, typer.Option(metavar="HASH", help="The seal that was published: it must be this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a run or an experiment: seal, chain of results, and every figure, computed again from the results.

    Figures are those of metrics.json and of tables, and outcomes in a batch's output.

    Exit status 1: something was changed; the first difference is named.
    """
    from tribunal.eval.seal.verification import verify_run

    found = verify_run(place)
    fault = found.fault
    if not fault and seal is not None and found.seal != seal.strip().lower():
        fault = f"the seal is {found.seal or 'missing'}, and not the one that was given"
    if as_json:
        say_json({**found._asdict(), "fault": fault or None})
    elif fault:
        say(f"{place}: {fault}")
    else:
        chain = "every result follows from the one before" if found.chained else "results without a chain"
        sealed = f"seal {found.seal}" if found.seal else "unsealed"
        say(f"{place}: unchanged: {sealed}; {chain}; {found.figures:,} figures computed again")
    if found.unchecked and not as_json:
        say(f"{place}: not checked: {', '.join(found.unchecked)}")
    if fault:
        raise typer.Exit(1)
