"""Whatever bytes come in, a reader gives its thing or raises a typed error, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import warnings
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import PROJECT
from tests.security.readers import READERS, Reader

DEEP = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"a = " + b"[" * 100_000,
    b"<div>" * 5000,
    b"(" * 50_000,
]
ODD = [
    b"",
    b"\0" * 100,
    b"\xff\xfe\xfd",
    "\ufeff\u202e".encode(),
    b"9" * 5000,
    b"NaN",
    b"-1e999",
    b'{"a": NaN}',
]

# Guided by coverage: so many inputs, and of every reader only with the slow tests.
RUNS = 1000
IN_CI = ("a model's reply", "a run's results")


def played(reader: Reader, body: bytes) -> None:
    with warnings.catch_warnings():
        # of libraries, about what they are given; errors are what is looked for
        warnings.simplefilter("ignore")
        with suppress(*reader.errors):
            reader.read(body)


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_odd_and_deep_bytes(reader: Reader) -> None:
    for body in (*ODD, *DEEP, reader.sound):
        played(reader, body)


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_a_sound_thing_damaged_anyhow(reader: Reader) -> None:
    @settings(
        max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
    )
    @given(st.binary(max_size=200), st.randoms(use_true_random=False), st.integers(0, 3))
    def damaged(noise: bytes, chance: random.Random, how: int) -> None:
        body = bytearray(reader.sound)
        at = chance.randrange(len(body))
        if how == 0:
            body[at:at] = noise
        elif how == 1:
            del body[at:]
        elif how == 2:
            for _ in range(1 + len(noise) % 8):
                body[chance.randrange(len(body))] = chance.randrange(256)
        else:
            body = bytearray(noise)
        played(reader, bytes(body))

    damaged()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris is not installed")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each.name, marks=() if each.name in IN_CI else pytest.mark.slow)
        for each in READERS
    ],
)
def test_guided_by_coverage(name: str) -> None:
    """A bounded run of atheris in a process of its own: it ends the process at the first error that isn't typed."""
    command = [
        sys.executable,
        "-m",
        "tests.security.guided",
        name,
        f"-runs={RUNS}",
        "-seed=1",
        "-rss_limit_mb=0",
    ]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, json.dumps(done.stderr[-3000:])
    assert f"Done {RUNS} runs" in done.stderr
