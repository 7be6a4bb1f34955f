"""What a call costs, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tribunal.core.calls import Call
from tribunal.errors import BadInput
from tribunal.runner.prices import read_prices


def call(model: str, **more: Any) -> Call:
    tokens = {"prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 100}
    return Call(
        id="1",
        role="judge",
        seat="judge",
        model=model,
        temperature=None,
        prompt_sha="0",
        **{**tokens, **more},
    )


def test_a_call_costs_its_tokens_each_at_its_price(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(
        '["openai:a"]\ninput = 2.0\ncached = 0.5\noutput = 10\n["openai:b"]\ninput = 2.0\noutput = 10\n'
    )
    prices = read_prices(tmp_path / "prices.toml")
    # 600 fresh, 400 cached, 100 out
    assert prices.cost_of_call(call("openai:a")) == pytest.approx(0.0012 + 0.0002 + 0.001)
    # no price for cached ones: they cost the same
    assert prices.cost_of_call(call("openai:b")) == pytest.approx(0.002 + 0.001)
    assert prices.cost_of_call(call("openai:a", cached=True)) == 0.0  # out of our own cache
    assert prices.cost_of_call(call("openai:c")) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '["openai:a"]\ninput = -1\noutput = 1',
            r"openai:a\.input: -1: .*greater than or equal to 0",
        ),
        ('["openai:a"]\ninput = 1', r"openai:a\.output"),
        ('["openai:a"\n', "is not TOML"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(BadInput, match=says):
        read_prices(tmp_path / "prices.toml")
