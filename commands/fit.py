"""`tribunal fit`: the confidence from which verdicts can be trusted, fitted on a run over labelled posts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.errors import ending_well
from tribunal.terminal import say

if TYPE_CHECKING:
    from tribunal.threshold import Threshold


def fit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run over labelled posts.")],
    agreement: Annotated[
        float, typer.Option(help="The share of accepted verdicts that are to agree with the gold, at least.")
    ] = 0.95,
    level: Annotated[float, typer.Option(help="How sure that is to be.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="Of the split into a fitting and a held-out half.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Left out: threshold.json in DIR.")] = None,
) -> None:
    """Fit the confidence threshold at which verdicts agree with people as often as is wanted.

    One half of the posts fits it; on the other its coverage and agreement are measured. The file can be named by a run.
    """
    with ending_well():
        from tribunal.errors import BadInput
        from tribunal.eval.measures.fit import fit as fitted
        from tribunal.files import write_whole

        found = fitted(folder, agreement=agreement, level=level, seed=seed)
        path = out or folder / "threshold.json"
        try:
            write_whole(path, found.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise BadInput(f"out: {path}: {error.strerror}; give a file that can be written") from error
        for said in _said(found):
            say(said)
        say(str(path))


def _said(found: Threshold) -> list[str]:
    agreed = found.agreement_held_out
    measured = "none to measure agreement on" if agreed is None else f"{agreed:.1%} of those agree with the gold"
    return [
        f"threshold {found.threshold:.4g}: a verdict at or above it is accepted",
        f"fitted on {found.n_fit} posts: at least {found.agreement:.1%} agreement, at level {found.level:g}",
        f"on {found.n_held_out} held-out posts: {found.coverage:.1%} accepted, {measured}",
    ]
