"""The rehearsal model: a provider like any other, registered by an entry point of this project's own."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from tribunal.models.providers import Endpoint, Provider


def _make(endpoint: Endpoint, http: Any) -> BaseChatModel:
    from tribunal.nodes.rehearsal.model import Rehearsal

    return Rehearsal()


PROVIDER = Provider("rehearsal", (), (), None, _make, keyless=True, sees_question=True)
