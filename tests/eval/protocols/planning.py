"""What a command with a protocol was about to run, with nothing run: its job, its run.json and its warnings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner, Result

from tribunal.commands import app
from tribunal.runner.job import RunJob
from tribunal.runner.results import Sample
from tribunal.schema import JSON


class Planned(NamedTuple):
    """What a command was about to run."""

    job: RunJob
    run: JSON
    warnings: list[str]

    @property
    def posts(self) -> list[Sample]:
        return list(self.job.samples)


def data_of(dataset: str, sets: Path) -> list[str]:
    names = dataset.split("+")
    given = (
        [str(sets / dataset)] if len(names) == 1 else [f"{name}={sets / name}" for name in names]
    )
    return ["--dataset", dataset, *(word for each in given for word in ("--data", each))]


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def planned(plans: list[Planned], sets: Path, protocol: str, dataset: str, *more: str) -> Planned:
    done = called("eval", "--protocol", protocol, *data_of(dataset, sets), "--out", "run", *more)
    assert not done.exit_code, done.output
    return plans.pop()


def error(*arguments: str) -> str:
    done = called(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    return done.stderr
