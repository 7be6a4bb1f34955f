"""A scripted model server that every call of `openai:NAME` in this process goes to."""

from __future__ import annotations

import os
from typing import Self

from tests.doubles import ScriptedServer


class OpenAIServer(ScriptedServer):
    """A scripted server at the address of the provider `openai`. The address goes before the next test (conftest)."""

    async def __aenter__(self) -> Self:
        """Begin to serve, and set the address."""
        await super().__aenter__()
        os.environ["OPENAI_BASE_URL"] = f"{self.url}/v1"
        return self
