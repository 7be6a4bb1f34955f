"""Every test runs with no key, no `.env`, no network, and a data folder of its own."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tribunal.core import times
from tribunal.models import completion as token_counter
from tribunal.models.ladder import forget_learnt
from tribunal.models.registry import PROVIDERS

# No example has to be quick: whether one is depends on what else the machine does.
settings.register_profile("without a clock", deadline=None)
settings.load_profile("without a clock")


def pytest_xdist_auto_num_workers() -> int:
    """Three for two cores: a test waits for processes and servers about as often as it computes."""
    return (os.cpu_count() or 2) * 3 // 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Count what drives a browser or the `langgraph dev` server among the long tests."""
    for item in items:
        if "server" in item.keywords or item.path.parent.name == "browser":
            item.add_marker("long")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import the tests without the garbage collector: a quarter of the time, in each worker, was spent in it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def no_jump_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that changes the clock is no jump for the next one."""
    monkeypatch.setattr(times.CLOCK, "ahead_before", None)
    monkeypatch.setattr(times.CLOCK, "jumped_at", float("-inf"))


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys and addresses of the machine are hidden, so that no test can reach a real model by accident."""
    for provider in PROVIDERS.values():
        for name in (
            *provider.keys,
            *provider.base_urls,
            *(setting for setting, _ in provider.account),
        ):
            monkeypatch.delenv(name, raising=False)
    for name in (
        "TRIBUNAL_MODEL",
        "TRIBUNAL_FETCH_ALLOW",
        "TRIBUNAL_IMAGE_HOSTS",
        "SEARXNG_URL",
        "TRIBUNAL_KEEP",
        "TRIBUNAL_DATABASE",
        "OPENAI_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    # its tables come from the network
    monkeypatch.setattr(token_counter, "_shared", [token_counter.ESTIMATE])
    forget_learnt()  # another server may have had the same port
    monkeypatch.setenv("TRIBUNAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.chdir(tmp_path)
