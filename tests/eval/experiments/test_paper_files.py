"""The files of the papers' tables: each figure has its place, each place its run, and each run one name."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tribunal.errors import BadInput
from tribunal.eval.experiments.experiment import (
    ChosenModels,
    Experiment,
    PlannedRun,
    find_experiment,
)
from tribunal.eval.protocols.following import RunRequest, follow_protocol
from tribunal.eval.protocols.protocol import load_protocols
from tribunal.models.registry import model_names
from tribunal.settings.contents import LINE_UPS
from tribunal.settings.context import context_from, refuse_unused_settings

YOURS = ChosenModels()
OWN = ChosenModels(own=("openai:one", "openai:two"), aux="openai:three")
PAPER = ChosenModels(paper=True)
BOTH = ChosenModels(own=("openai:one",), paper=True)


def compares_models(held: Experiment) -> bool:
    return any(row.model for row in held.shape.rows)


def runs(name: str, models: ChosenModels) -> list[PlannedRun]:
    """The runs of an experiment; where it compares no models, with the first of one's own alone."""
    held = find_experiment(name)
    if not compares_models(held):
        models = replace(models, own=() if models.paper else models.own[:1])
    return replace(held, models=models).planned_runs(held.dataset_names)


def names(name: str, models: ChosenModels) -> set[str]:
    return {run.name for run in runs(name, models)}


def test_every_table_and_figure_that_is_to_be_had_is_there() -> None:
    assert list(load_protocols()) == [
        "arcade-table3", "arcade-table4", "arcade-table5", "arcade-table7", "arcade-table8",
        "predict-table1", "predict-table2", "predict-table4", "predict-table6",
        "antihate-table2", "antihate-table3", "antihate-table4", "antihate-figure3",
        "mv-debate-table1", "mv-debate-table2", "mv-debate-table3", "mv-debate-table4",
        "mv-debate-figure2", "mv-debate-figure3",
    ]  # fmt: skip
    held = find_experiment("mv-debate-table4")
    assert (held.protocol.paper, held.protocol.table) == ("MV-Debate", "Table 4")
    with pytest.raises(
        BadInput, match=r"'arcade-tabel3': there is none of that name; did you mean arcade-table"
    ):
        find_experiment("arcade-tabel3")


@pytest.mark.parametrize(
    "held", [Experiment(each) for each in load_protocols().values()], ids=list(load_protocols())
)
def test_each_figure_has_its_place_and_each_place_its_figure(held: Experiment) -> None:
    for row in held.shape.rows:
        # A row beside the paper's has a place for each figure, and no figure.
        for column, printed in zip(
            held.shape.columns, row.paper or [""] * len(held.shape.columns), strict=True
        ):
            where = f"{row.full_labels}, {column.heads}: {printed!r}"
            assert printed in ("", "-") or re.fullmatch(
                r"\(?[-+]?\d+(\.\d+)?%?\)?( \(±?\d\.\d{3}\))?", printed
            ), where
            if held.cell_at(row, column) is None:
                assert printed in ("", "-") or row.not_run, where
            else:
                assert printed not in ("", "-") or (
                    printed == "" and (held.shape.drawn or not row.paper)
                ), where
                assert not row.not_run, where
    assert {row.model for row in held.shape.rows if row.model} >= held.shape.asks.keys()


@pytest.mark.parametrize("models", [YOURS, OWN, PAPER, BOTH], ids=["yours", "own", "paper", "both"])
def test_each_run_follows_its_protocol_and_is_heeded(models: ChosenModels) -> None:
    """Nothing departs from the paper, no setting is without effect, and a name stands for one run in all tables."""
    known: dict[str, PlannedRun] = {}
    for name in load_protocols():
        for run in runs(name, models):
            same = known.setdefault(run.name, run)
            assert (same.protocol, same.dataset, same.settings) == (
                run.protocol,
                run.dataset,
                run.settings,
            )
            found = follow_protocol(
                run.protocol,
                RunRequest(
                    dataset=run.dataset, settings=run.settings, paper_models=run.paper_models
                ),
            )
            assert found.note is not None
            # A judge or a model of one's own in a seat that the paper fixes would be one.
            assert found.note["departures"] == {}, run
            refuse_unused_settings(found.graph, context_from(found.settings))
            for value in run.settings.values():
                assert value in LINE_UPS.shipped_names or model_names(value, "model")
            assert re.fullmatch(r"[\w.+=-]{1,120}", run.name, re.ASCII)
    assert len(known) > 100


def test_a_run_that_fills_several_tables_is_planned_once() -> None:
    for models in (YOURS, OWN, PAPER):
        assert names("arcade-table7", models) == names("arcade-table3", models)
        assert names("arcade-table8", models) <= names("arcade-table3", models)
        assert names("mv-debate-figure2", models) & names("mv-debate-table1", models)
        in_dataset = {name for name in names("predict-table2", models) if "_agent-" in name}
        assert len(in_dataset) == 5
        assert in_dataset <= names("predict-table1", models)
    # Nine judges as the paper says and as its code does, and the baselines of each, in two tasks.
    assert len(runs("arcade-table3", PAPER)) == 54
    # Qwen3-VL-Plus as proposed, as the code does, as the baseline, and with a weak judge are rows of Tables 3 and 4.
    both = names("arcade-table3", PAPER) | names("arcade-table4", PAPER)
    assert sorted(names("arcade-table5", PAPER) & both) == [
        "arcade-table3_baseline-fine_h-vli_qwen-qwen3-vl-plus",
        "arcade-table3_fine-as-code_h-vli_paper_qwen-qwen3-vl-plus",
        "arcade-table3_fine_h-vli_paper_qwen-qwen-vl-plus", "arcade-table3_fine_h-vli_paper_qwen-qwen3-vl-plus",
        "arcade-table4_arcade-as-code_fhm_paper_qwen-qwen3-vl-plus",
        "arcade-table4_arcade_fhm_paper_qwen-qwen3-vl-plus", "arcade-table4_baseline_fhm_qwen-qwen3-vl-plus",
    ]  # fmt: skip


def test_who_is_asked() -> None:
    def settings(name: str, models: ChosenModels) -> list[dict[str, str]]:
        return [run.settings for run in runs(name, models) if run.dataset in ("h-vli", "mmsd")]

    # A judge of one's own over one debate for all: the one call has no other agents.
    assert settings("arcade-table8", OWN) == [
        {"model": "openai:one"},
        {"model": "openai:one", "aux_model": "openai:three"},
    ]
    # In the place of the paper's judges, with the paper's auxiliary model.
    judge = [run for run in runs("arcade-table3", BOTH) if run.protocol == "arcade-table3/fine"]
    assert [(run.settings, run.paper_models) for run in judge] == [
        ({"judge_model": "openai:one"}, True)
    ]
    # The views are of one model; the control agents are the paper's.
    views = [
        run for run in runs("mv-debate-table2", PAPER) if run.protocol == "mv-debate-table2/no-deep"
    ]
    assert [(run.settings, run.model) for run in views] == [
        ({"aux_model": "ollama:llama4:maverick"}, "LLaMA-4-Maverick-17B"),
        ({"aux_model": "anthropic:claude-sonnet-4-0"}, "Claude-4-Sonnet"),
    ]
    # Of several different models in the views only the paper's line-ups are known.
    assert "heterogeneous" not in str(names("mv-debate-table1", OWN))
    assert "mv-debate-table1_heterogeneous-open_mmsd_paper" in names("mv-debate-table3", PAPER)
    # DeepSeek has no name here, and so no run.
    assert names("antihate-table4", PAPER) == set()
    assert len(runs("antihate-table4", OWN)) == 10


def test_a_model_that_has_no_place_is_refused() -> None:
    ablation = find_experiment("arcade-table5")
    with pytest.raises(
        BadInput, match="model: openai:one, openai:two: arcade-table5 compares no models; give one"
    ):
        replace(ablation, models=OWN).planned_runs(["fhm"])
    with pytest.raises(BadInput, match="leaves it no seat; leave one of the two out"):
        replace(ablation, models=BOTH).planned_runs(["fhm"])
    # Whom the paper asked can't be named there: one's own model takes every seat.
    assert len(find_experiment("antihate-table4", BOTH).planned_runs(["sbic"])) == 5


def test_a_set_that_is_not_at_hand_has_no_run() -> None:
    table5 = find_experiment("arcade-table5", YOURS)
    assert {run.dataset for run in table5.planned_runs(["fhm"])} == {"fhm"}
    figure3 = find_experiment("antihate-figure3", YOURS)
    assert figure3.planned_runs(["sbic"]) == []
    assert len(figure3.planned_runs(["sbic", "ghc"])) == 10
