"""The page of a paper's table in a real browser: on a telephone, by day and by night, whatever a model is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.browser.conftest import IN_CHROMIUM
from tests.browser.test_own_pages import HOSTILE, is_read, opened
from tests.result_lines import answers, write_run
from tribunal.eval.experiments.experiment import ChosenModels, find_experiment
from tribunal.eval.experiments.rendering import write_table
from tribunal.eval.experiments.table import build_table
from tribunal.eval.measures.columns import read_columns

pytestmark = IN_CHROMIUM


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("arcade-table3", marks=pytest.mark.slow),
        "mv-debate-table1",
        pytest.param("predict-table2", marks=pytest.mark.slow),
    ],
)
async def test_a_papers_table_is_read_on_a_telephone(
    name: str, chromium: Browser, tmp_path: Path
) -> None:
    held = find_experiment(name, ChosenModels(own=(HOSTILE,)))
    columns = read_columns(
        write_run(tmp_path / "run", answers("0101", "0110", scheme="binary", gold_scheme="binary"))
    )
    table = build_table(
        held, {run.name: columns for run in held.planned_runs(held.dataset_names)}, {"x": HOSTILE}
    )
    page = write_table(table, tmp_path)[1]
    async with opened(chromium, page) as read:
        await is_read(read, held.protocol.title)
        assert (
            await read.evaluate(
                "document.querySelectorAll('script, iframe, base, object, form, img').length"
            )
            == 0
        )
        # The first figure of the paper is on the screen beside its row, with nothing scrolled.
        at = "document.querySelector('tr.of-paper td:nth-child(3)').getBoundingClientRect().right"
        assert await read.evaluate(at) <= 390
        assert await read.evaluate("document.querySelectorAll('tr.here').length") > 3
