"""Which posts and settings each condition of each table plans, through the command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eval.protocols.planning import Planned, planned
from tribunal.eval.datasets import DATASETS
from tribunal.eval.protocols.protocol import load_protocols
from tribunal.graphs import GRAPHS
from tribunal.settings.context import context_from
from tribunal.settings.graph_settings import MODES, SETTINGS

FIVE = ["k-haters", "k-mhas", "kold", "kodoli", "unsmile"]
SINGLE = {"mode": "single"}
# Condition, set, graph, posts, repeats, and the settings that aren't the defaults.
ROWS: list[tuple[str, str, str, int, int, dict[str, Any]]] = [
    ("arcade-table3/fine", "h-vli", "arcade", 1178, 1, {}),
    ("arcade-table3/binary", "h-vli", "arcade", 1178, 1, {"scheme": "binary"}),
    ("arcade-table3/baseline-fine", "h-vli", "baseline", 1178, 1, {}),
    ("arcade-table3/baseline-binary", "h-vli", "baseline", 1178, 1, {"scheme": "binary"}),
    ("arcade-table4/arcade", "fhm", "arcade", 500, 1, {"scheme": "binary", "rounds": 2}),
    ("arcade-table4/baseline", "fhm", "baseline", 500, 1, {"scheme": "binary"}),
    ("arcade-table5/proposed", "h-vli", "arcade", 1178, 1, {}),
    ("arcade-table5/proposed", "fhm", "arcade", 500, 1, {"scheme": "binary", "rounds": 2}),
    ("arcade-table5/baseline", "fhm", "baseline", 500, 1, {"scheme": "binary"}),
    ("arcade-table5/multiround", "h-vli", "multiround", 1178, 1, {}),
    ("arcade-table5/multiround", "fhm", "multiround", 500, 1, {"scheme": "binary", "rounds": 2}),
    ("arcade-table5/k1", "h-vli", "arcade", 1178, 1, {"rounds": 1}),
    ("arcade-table5/k1", "fhm", "arcade", 500, 1, {"scheme": "binary", "rounds": 1}),
    ("arcade-table5/k2", "h-vli", "arcade", 1178, 1, {"rounds": 2}),
    ("arcade-table5/k3", "fhm", "arcade", 500, 1, {"scheme": "binary"}),
    ("arcade-table5/k4", "h-vli", "arcade", 1178, 1, {"rounds": 4}),
    ("arcade-table7/binary", "h-vli", "arcade", 1178, 1, {"scheme": "binary"}),
    ("arcade-table8/arcade", "h-vli", "arcade", 1178, 1, {}),
    ("predict-table1/base", "kold", "predict", 400, 5, {"mode": "base"}),
    ("predict-table1/agent-d", "k-mhas", "predict", 400, 5, {**SINGLE, "perspectives": ["kodoli"]}),
    ("predict-table1/majority", "k-haters", "predict", 400, 5, {"mode": "majority", "perspectives": FIVE}),
    ("predict-table2/rounds-1-2", "kodoli", "predict", 400, 5, {"perspectives": FIVE}),
    ("predict-table2/round-1", "unsmile", "predict", 400, 5, {"mode": "round-1-only", "perspectives": FIVE}),
    ("predict-table2/in-dataset", "unsmile", "predict", 400, 5, {**SINGLE, "perspectives": ["unsmile"]}),
    ("predict-table2/in-dataset", "k-haters", "predict", 400, 5, {**SINGLE, "perspectives": ["k-haters"]}),
    ("predict-table4/criterion", "kold", "predict", 400, 5, {"mode": "criterion-only", "perspectives": FIVE}),
    ("predict-table4/examples", "kold", "predict", 400, 5, {"mode": "examples-only", "perspectives": FIVE}),
    ("predict-table6/four", "k-mhas", "predict", 400, 5,
     {"mode": "leave-out", "leave_out": "k-mhas", "perspectives": FIVE}),
    ("predict-table6/five", "k-mhas", "predict", 400, 5, {"perspectives": FIVE}),
    ("antihate-table2/agent", "sbic", "antihate", 1000, 1, {}),
    ("antihate-table2/agent", "ghc", "antihate", 504, 1, {}),
    ("antihate-table2/baseline", "4chan", "antihate", 1408, 1, {"mode": "zero-shot"}),
    ("antihate-table3/agent", "4chan", "antihate", 78, 1, {}),
    ("antihate-table4/no-knowledge", "sbic", "antihate", 200, 1, {"mode": "no-knowledge"}),
    ("antihate-table4/no-search", "ghc", "antihate", 200, 1, {"mode": "no-search"}),
    ("antihate-table4/no-details", "sbic+ghc", "antihate", 200, 1, {"mode": "no-details"}),
    ("antihate-figure3/agent-t0", "sbic+ghc", "antihate", 200, 1, {"temperatures": {"researcher": 0.0}}),
    ("antihate-figure3/agent-t1.5", "sbic+ghc", "antihate", 200, 1, {"temperatures": {"researcher": 1.5}}),
    ("antihate-figure3/baseline-t2", "sbic", "antihate", 200, 1,
     {"mode": "zero-shot", "temperatures": {"researcher": 2.0}}),
    ("mv-debate-table1/homogeneous", "mmsd", "mv_debate", 500, 1, {"task": "sarcasm"}),
    ("mv-debate-table1/homogeneous", "fhm", "mv_debate", 500, 1, {}),
    ("mv-debate-table1/homogeneous", "gossipcop", "mv_debate", 500, 1, {"task": "misinformation"}),
    ("mv-debate-table1/zero-shot", "fhm", "baseline", 500, 1,
     {"mode": "zero-shot"}),
    ("mv-debate-table2/no-deep", "mmsd", "mv_debate", 500, 1,
     {"task": "sarcasm", "views": ["surface", "contrast", "context"]}),
    ("mv-debate-table3/no-reflection", "mmsd", "mv_debate", 500, 1, {"task": "sarcasm", "reflection_mode": "none"}),
    ("mv-debate-table4/all", "mmsd", "mv_debate", 500, 1, {"task": "sarcasm", "history": "all"}),
    ("mv-debate-figure2/rounds-4", "mmsd", "mv_debate", 500, 1, {"task": "sarcasm", "rounds": 4}),
    ("mv-debate-figure3/debate", "fhm", "mv_debate", 500, 1, {}),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "dataset", "graph", "posts", "repeats", "settings"), ROWS)
def test_a_condition_plans_the_papers_posts_and_settings(
    protocol: str,
    dataset: str,
    graph: str,
    posts: int,
    repeats: int,
    settings: Mapping[str, Any],
    sets: Path,
    plans: list[Planned],
) -> None:
    plan = planned(plans, sets, protocol, dataset)
    assert (plan.job.graph, plan.job.count, plan.job.repeats) == (graph, posts, repeats)
    yes_or_no = "task" in settings
    held = {name: value for name, value in plan.run["settings"].items() if name != "policy"}
    # Every prompt of PREDICT's paper asks for the label before the reason.
    assert held.pop("answer_order", "reason-first") == (
        "label-first" if graph == "predict" else "reason-first"
    )
    assert held == {**settings, **({"scheme": "binary"} if yes_or_no else {})}
    assert (plan.run["protocol"]["name"], plan.run["protocol"]["condition"]) == tuple(
        protocol.split("/")
    )
    assert plan.run["protocol"]["departures"] == {}
    assert not any("not the paper's run" in warning for warning in plan.warnings)


@pytest.mark.long
@pytest.mark.parametrize("name", load_protocols())
def test_every_condition_can_be_planned_on_each_of_its_sets(
    name: str, sets: Path, plans: list[Planned]
) -> None:
    held = load_protocols()[name]
    for dataset in held.datasets:
        for condition, row in held.conditions_on(dataset).items():
            more = ["--paper-models"] if row.models else []
            plan = planned(plans, sets, f"{name}/{condition}", dataset, *more)
            sample = held.sample_of(dataset)
            assert sample is not None
            assert plan.job.count == sum(sample.quotas.values())
            assert plan.job.graph == row.graph
            assert plan.run["protocol"]["departures"] == {}


@pytest.mark.parametrize("name", load_protocols())
def test_what_a_protocol_says_there_is(name: str) -> None:
    """Sets, graphs and settings exist; a condition names none that its graph doesn't heed; modes are the graph's."""
    held = load_protocols()[name]
    assert {part for dataset in held.datasets for part in dataset.split("+")} <= DATASETS.keys()
    for condition, row in held.conditions.items():
        assert row.graph in GRAPHS
        assert row.by_dataset.keys() <= held.datasets.keys()
        assert set(row.datasets) <= held.datasets.keys()
        named = {
            *row.settings,
            *row.models,
            *(each for sets in row.by_dataset.values() for each in sets),
        }
        assert all(row.graph in (SETTINGS[each].graphs or (row.graph,)) for each in named), (
            condition
        )
        for dataset in row.datasets or held.datasets:
            sets = held.settings_of(condition, dataset)
            context_from({**sets, **held.models_of(condition)})
            assert row.graph != "antihate" or sets["mode"] in MODES["antihate"]
