"""Further fields of a request's body, by model: what a server or a model takes beside what every other one does."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from tribunal.errors import BadInput
from tribunal.models.providers import ModelName, Provider
from tribunal.schema import JSON


def extra_for(model: ModelName, extra_body: Mapping[str, JSON]) -> JSON:
    """The fields for a model: of every pattern that its name or `provider:model` fits; a later one beats an earlier."""
    found: JSON = {}
    for pattern, fields in extra_body.items():
        if fnmatchcase(str(model), pattern) or fnmatchcase(model.model, pattern):
            found |= fields
    return found


def check_extra(model: ModelName, provider: Provider, extra_body: Mapping[str, JSON]) -> None:
    """Raise `BadInput` where a model is given fields that its provider's client can't send."""
    if not provider.takes_extra and (fields := extra_for(model, extra_body)):
        raise BadInput(
            f"extra_body: {model}: {', '.join(fields)} can't be sent to {provider.name}; only OpenAI-compatible "
            "servers and Ollama take further fields"
        )
