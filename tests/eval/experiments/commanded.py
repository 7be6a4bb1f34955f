"""`tribunal experiment` as a user gives it, over the small sets, with a scripted model over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tests.doubles import ScriptedServer
from tests.doubles.web import SearchServer
from tests.eval.experiments.played import played
from tests.eval.experiments.small_sets import write_perspectives
from tribunal.commands import app


@contextmanager
def scripted(script: Any = played, latency: float = 0.0) -> Iterator[ScriptedServer]:
    """The model, and a search server that finds nothing; both answer where the settings of a test point."""
    write_perspectives(Path(os.environ["TRIBUNAL_DATA"]))
    with ScriptedServer(script, latency=latency) as server, SearchServer({}) as search:
        os.environ |= {"OPENAI_BASE_URL": f"{server.url}/v1", "SEARXNG_URL": search.url}
        try:
            yield server
        finally:
            del os.environ["OPENAI_BASE_URL"], os.environ["SEARXNG_URL"]


def arguments(command: str, name: str, sets: Path, *more: str) -> list[str]:
    """A command line over four posts of each set, with one model."""
    given = ["experiment", command, name, "--data", str(sets), "--out", "runs", *more]
    for option, value in (("--model", "openai:m"), ("--samples", "4")):
        if option not in more and "--paper-models" not in more:
            given += [option, value]
    if name.startswith("antihate"):
        given += ["--set", "search=searxng"]
    return given


def called(*given: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, given, input=answer)


def told(command: str, name: str, sets: Path, *more: str) -> Any:
    """What a command says as JSON."""
    done = called(*arguments(command, name, sets, "--json", *more))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def error(*given: str) -> str:
    done = called(*given)
    assert done.exit_code == 2, done.output
    return done.stderr


def cells(folder: str | Path = "runs") -> dict[tuple[str, str], dict[str, Any]]:
    """The measured cells of the table in a folder, by row and column."""
    table = json.loads((Path(folder) / "table.json").read_bytes())
    heads = [" ".join(filter(None, each)) for each in table["heads"]]
    return {
        (" ".join(filter(None, line["labels"])), head): cell
        for line in table["lines"]
        if line["kind"] != "paper"
        for head, cell in zip(heads, line["cells"], strict=True)
    }
