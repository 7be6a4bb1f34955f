"""One process for all tests of a worker, from which commands are forked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cases.forked import Forked


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    with Forked(tmp_path_factory.mktemp("forked")) as process:
        yield process
