"""What the tests of models share: no pauses but those that a server asks for."""

from __future__ import annotations

import pytest

from tribunal.models import keys


@pytest.fixture(autouse=True)
def no_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses that no server asked for are left out; the ones that it asked for are kept."""
    monkeypatch.setattr(keys, "retry_delay", lambda tries: 0.0)
