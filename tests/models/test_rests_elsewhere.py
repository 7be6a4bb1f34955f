"""A rest that a server asked of one process, taken by another that uses the same keys."""

from __future__ import annotations

import pytest

from tribunal.models.providers import ModelName
from tribunal.models.registry import ModelRegistry, provider_of
from tribunal.settings.environment import DotEnv

KEYS = {"OPENAI_API_KEY_1": "one", "OPENAI_API_KEY_2": "two"}


@pytest.mark.parametrize("told_before_its_first_call", [True, False])
def test_a_rest_told_by_another_process_rests_the_key_and_is_told_to_nobody(
    told_before_its_first_call: bool,
) -> None:
    model, door = ModelName("openai", "scripted"), ModelRegistry(DotEnv(KEYS, is_trusted=False))
    told: list[tuple[str, int, float]] = []
    door.on_rest = lambda *rest: told.append(rest)
    pool = None if told_before_its_first_call else door.key_pool(model, provider_of(model))
    door.rest_key_quietly("openai", 0, 60)
    door.rest_key_quietly("anthropic", 1, 60)
    pool = pool or door.key_pool(model, provider_of(model))
    assert pool.rested_keys() == [1]  # the other one may be used
    door.rest_key_quietly("openai", 1, 60)
    assert pool.rested_keys() == []
    assert told == []
    pool.rest_key(1, 5)
    assert told == [("openai", 1, 5)]
