"""The rehearsal model: a provider like any other, registered by an entry point of this project's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.models.providers import Endpoint, Provider, RequestSettings
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def _make(endpoint: Endpoint) -> BaseChatModel:
    from tribunal.nodes.rehearsal.model import Rehearsal

    return Rehearsal()


def _options(wanted: RequestSettings) -> JSON:
    return {}  # it reads the question itself


PROVIDER = Provider(name="rehearsal", make=_make, options=_options, only_model="court", sees_question=True)
