"""The chat model of Anthropic's servers: LangChain's own, but for the connections.

LangChain's follow redirects, which would carry the key to anywhere, and are shared by every client of the process, so
that the first event loop to end would close them for the next.
"""

from __future__ import annotations

from functools import cached_property

import anthropic
from langchain_anthropic import ChatAnthropic

from tribunal.models.providers.http import httpx_without


class Claude(ChatAnthropic):
    """A chat model over `/v1/messages`."""

    @cached_property
    def _async_client(self) -> anthropic.AsyncClient:
        given = self._client_params
        connections = anthropic.DefaultAsyncHttpxClient(
            base_url=given["base_url"],
            follow_redirects=False,
            proxy=self.anthropic_proxy,
            event_hooks=httpx_without(self.anthropic_api_key.get_secret_value()),
        )
        return anthropic.AsyncClient(**given, http_client=connections)
