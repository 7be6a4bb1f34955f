"""A process that works for another, which is gone: it ends by itself, and says nothing."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from tests import PROJECT
from tests.eval.runs.worker import job
from tribunal.process.workers import write_message
from tribunal.runner.job import order_of_job

pytestmark = pytest.mark.long  # a process each


@pytest.mark.parametrize("work", ["run", "sandbox"])
def test_a_process_whose_answer_nobody_reads_ends_quietly(work: str) -> None:
    code = {
        "run": "from tribunal.runner.worker import main; main()",
        "sandbox": "from tribunal.process.sandbox import serve_jobs\n"
        "serve_jobs('tribunal.core.text:make_visible', 2**33)",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", code[work]], env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert isinstance(process.stdin, io.BufferedWriter)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.close()
        if work == "run":
            order, _ = order_of_job(job(1, 1), None, None)
            write_message(process.stdin, {"order": order.model_dump(mode="json")})
        told = process.stderr.read()  # its input is open still
        assert (process.wait(), told) == (1, b"")
