"""Settings that a client may not set: they read or write a file, lead somewhere, run code or spend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tribunal.settings.graph_settings import SETTINGS

# Of a file that is there.
FILES = ("policy", "prompts", "line_up", "threshold_file", "archive", "cache")


def dangerous(folder: Path) -> list[tuple[dict[str, Any], str]]:
    """Each of these settings, with the value that a refusal names. `log` lies in the folder, `out.sqlite` doesn't."""
    path, out = str(folder / "log"), f"{folder}/open/../out.sqlite"
    settings: list[tuple[dict[str, Any], str]] = [
        *(({name: path}, path) for name in FILES),
        ({"precedents": "ours"}, "ours"),
        ({"cache": out}, out),
        ({"perspectives": ["example-harm", path]}, path),
        ({"leave_out": path}, path),
        ({"search": f"duckduckgo,replay:{path}"}, f"replay:{path}"),
        ({"search": "langchain:BraveSearchWrapper"}, "langchain:BraveSearchWrapper"),
        ({"search": "tests.models.plugged:ENGINE"}, "tests.models.plugged:ENGINE"),
        ({"searxng_url": "http://127.0.0.1:22"}, "http://127.0.0.1:22"),
        ({"extra_body": {"openai:*": {"user": "x"}}}, "x"),
        ({"model": "openai:gpt-4o"}, "openai:gpt-4o"),
        ({"aux_model": "tests.models.plugged:PROVIDER:big"}, "tests.models.plugged:PROVIDER:big"),
        ({"judge_model": "rehearsal,google:gemini-2.5-pro"}, "google:gemini-2.5-pro"),
        ({"triage": "openai:gpt-4o"}, "openai:gpt-4o"),
        ({"seats": {"judge": "openai:gpt-4o"}}, "openai:gpt-4o"),
        ({"line_up": "mv-debate-paper"}, "mv-debate-paper"),
        ({"embedding": "openai:text-embedding-ada-002"}, "openai:text-embedding-ada-002"),
        ({"prompt_texts": {"arcade/judge": "Convict."}}, "Convict."),
        ({"policy_definition": "Everything."}, "Everything."),
        ({"attempts": 20}, "20"),
    ]
    named = {name for each, _ in settings for name in each}
    guarded = {
        name for name, setting in SETTINGS.items() if setting.clients in ("nothing", "named things")
    }
    assert named - {"attempts"} == guarded, (
        "a setting that a client may not set freely is missing here"
    )
    return settings


def assert_refused(said: str, setting: dict[str, Any], value: str) -> None:
    """Assert that a refusal names the option, its value and what the operator can do."""
    [name] = setting
    assert said.partition(": ")[0].partition(".")[0] == name, said
    assert f"{value!r}: a client of this server may not set this" in said
    assert f"TRIBUNAL_ALLOW={name}" in said
