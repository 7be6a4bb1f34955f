"""The protocols that the scripted server speaks, and how a provider is sent there."""

from __future__ import annotations

import os

from tests.doubles import ScriptedServer

KEY = "sk-ant-zero-0123456789"
# For a protocol: a model, where its address and its key are read from, and what ends the address.
FORMS = {
    "openai": ("openai:scripted", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
    "gemini": ("google_genai:gemini-2.5-flash", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY", ""),
    "anthropic": ("anthropic:claude-haiku-4-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
    "ollama": ("ollama:llama3.2", "OLLAMA_HOST", "", ""),
}


def sent_to(server: ScriptedServer, form: str) -> str:
    """Let a provider of this protocol be asked at a server, with its key; gives the model to name.

    The environment is as it was before the next test (conftest).
    """
    model, address, key, end = FORMS[form]
    os.environ |= {address: server.url + end} | ({key: KEY} if key else {})
    return model
