"""The rehearsal model: a provider like any other, registered by an entry point of this project's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.models.providers import Endpoint, Provider

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _make_rehearsal(endpoint: Endpoint) -> BaseChatModel:
    from tribunal.nodes.rehearsal.model import Rehearsal

    return Rehearsal()


PROVIDER = Provider(name="rehearsal", make=_make_rehearsal, only_model="court", sees_question=True)
