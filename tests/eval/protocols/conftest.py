"""The papers' sets, written once, and runs that are planned and not begun."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.eval.protocols.planning import Planned
from tests.eval.protocols.sets import write_all
from tribunal.runner.job import RunJob
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("sets"))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """Every run is planned, kept here, and not begun."""
    held: list[Planned] = []

    def keep(job: RunJob, folder: Path, run: JSON, *_: Any, warnings: Collection[str]) -> RunTally:
        held.append(Planned(job, json.loads(json.dumps(run)), list(warnings)))
        return RunTally(total=job.count)

    monkeypatch.setattr("tribunal.eval.evaluate.carry_out_run", keep)
    return held
