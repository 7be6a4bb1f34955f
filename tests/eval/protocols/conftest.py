"""The papers' sets, written once, and runs that are planned and not begun."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.eval.protocols.planning import Planned
from tests.eval.protocols.sets import write_all
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.tally import Tally
from tribunal.schema import JSON


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("sets"))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """Every run is planned, kept here, and not begun."""
    held: list[Planned] = []

    def keep(job: Job, folder: Path, run: JSON, write: Any, *, warnings: Collection[str], **_: Any) -> Tally:
        held.append(Planned(job, json.loads(json.dumps(run)), list(warnings)))
        return Tally(total=job.count)

    monkeypatch.setattr("tribunal.eval.evaluate.carry_out", keep)
    return held
