"""Model objects of the caller's in runs, and where names alone go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tribunal
from tests.models.classified import GOOD
from tests.models.model_objects import (
    KEY,
    own_model,
)
from tribunal.commands import app
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.eval.evaluate import Evaluation, evaluate
from tribunal.runner.job import RunEngine, RunOptions
from tribunal.settings.client_settings import check_request
from tribunal.settings.context import context_from, settings_for_record

# Runs


def evaluation(tmp_path: Path, model: Any) -> Evaluation:
    data = tmp_path / "posts.csv"
    data.write_text(
        "id,text,label\n" + "".join(f"p{number},post {number},0\n" for number in range(4))
    )
    return Evaluation(data=data, dataset="table", graph="baseline", settings={"model": model})


def test_a_run_of_one_process_takes_an_object(tmp_path: Path) -> None:
    model = own_model(GOOD)
    tally = evaluate(evaluation(tmp_path, model), tmp_path / "run")
    assert (tally.done, tally.stopped) == (4, "")
    assert len(model.shown) == 4
    held = (tmp_path / "run" / "run.json").read_text()
    assert json.loads(held)["settings"]["model"].startswith("object:ownmodel:mine")
    assert KEY not in held
    again = evaluate(evaluation(tmp_path, model), tmp_path / "run")
    assert (again.before, again.done) == (4, 0)


def test_a_run_of_several_processes_takes_names_alone(tmp_path: Path) -> None:
    model = own_model(GOOD)
    for engine in (RunEngine(workers=2), RunEngine(name="ray")):
        with pytest.raises(
            BadInput, match=r"^model: an object can't go .*; name it .* or use workers=1$"
        ):
            evaluate(evaluation(tmp_path, model), tmp_path / "run", RunOptions(engine=engine))
    assert model.shown == []
    assert not (tmp_path / "run" / "run.json").exists()


# Where names alone go


@pytest.mark.parametrize(("field", "given"), [("model", object()), ("seats", {"judge": object()})])
def test_an_object_that_is_no_runnable_is_refused(field: str, given: Any) -> None:
    named = "seats.judge" if field == "seats" else field
    with pytest.raises(BadInput, match=rf"^{named}: object: no model") as caught:
        tribunal.judge("a post", **{field: given})
    assert "\n" not in str(caught.value)


def test_the_command_line_takes_no_name_of_an_object() -> None:
    said = CliRunner().invoke(app, ["judge", "a post", "--model", "object:openai:gone"])
    assert said.exit_code != 0
    assert "an object can't go to other processes" in " ".join(said.output.split())


async def test_an_object_of_another_process_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^model: an object can't go to other processes; name it"):
        await judge_post(
            "a post", graph="baseline", context=context_from({"model": "object:openai:gone"})
        )


def test_a_client_of_a_server_reaches_no_object_of_its_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = own_model(GOOD)
    name = settings_for_record(context_from({"model": model}))["model"]
    monkeypatch.setenv("TRIBUNAL_ALLOW", "model=*")
    for given in ({"model": name}, {"seats": {"judge": name}}):
        with pytest.raises(BadInput, match="an object can't come from another process"):
            check_request(given)
