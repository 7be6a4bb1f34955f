"""A run that follows a protocol: its posts, which table and condition is meant, and what departs from the paper."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.eval.protocols.planning import Planned, called, data_of, error, planned
from tribunal.eval.datasets import Sample

# --------------------------------------------------------------------------------------------------------------- posts


def kinds(plan: Planned) -> Counter[tuple[str, bool, bool]]:
    """How many posts of each set, gold and implicitness."""
    return Counter(
        (
            post.fields.get("dataset", ""),
            bool(post.gold and post.gold.positive),
            bool(post.fields.get("implicit")),
        )
        for post in plan.posts
    )


def test_the_posts_of_antihates_tables(sets: Path, plans: list[Planned]) -> None:
    assert kinds(planned(plans, sets, "antihate-table3/agent", "4chan")) == {("", True, True): 78}
    assert kinds(planned(plans, sets, "antihate-table4", "ghc")) == {
        ("", True, True): 100,
        ("", False, False): 100,
    }
    table4 = planned(plans, sets, "antihate-table4", "sbic")
    assert kinds(table4) == {("", True, False): 100, ("", False, False): 100}
    assert {post.fields["who_target"] for post in table4.posts} == {0.0}
    pooled = planned(plans, sets, "antihate-figure3", "sbic+ghc")
    assert kinds(pooled) == {
        ("sbic", True, False): 50, ("sbic", False, False): 50, ("ghc", True, True): 50, ("ghc", False, False): 50,
    }  # fmt: skip
    assert (pooled.run["dataset"], len(pooled.run["data"]["files"])) == ("sbic+ghc", 4)
    # A smaller sample lies within a larger one: the pool's in Table 4's, and that in Table 2's.
    sbic = {
        post.id.removeprefix("sbic:") for post in pooled.posts if post.fields["dataset"] == "sbic"
    }
    whole = {post.id for post in planned(plans, sets, "antihate-table2", "sbic").posts}
    assert sbic < {post.id for post in table4.posts} < whole


def test_some_of_a_papers_sample(sets: Path, plans: list[Planned]) -> None:
    some = planned(plans, sets, "antihate-table2", "ghc", "--samples", "11")
    assert kinds(some) == {("", True, True): 6, ("", False, False): 5}
    whole = {post.id for post in planned(plans, sets, "antihate-table2", "ghc").posts}
    assert {post.id for post in some.posts} < whole
    assert some.run["protocol"]["departures"] == {"samples": {"paper": 504, "run": 11}}
    assert "samples is 11, in the paper 504" in some.warnings[-1]
    assert len(planned(plans, sets, "paper", "h-vli", "--samples", "7", "--seed", "3").posts) == 7
    says = error(
        "eval", "--protocol", "paper", *data_of("ghc", sets), "--out", "run", "--samples", "505"
    )
    assert "samples: 505: is not within the paper's own 504" in says
    says = error(
        "eval", "--protocol", "paper", *data_of("ghc", sets), "--out", "run", "--balance", "label"
    )
    assert "balance: a paper's sample has a balance of its own" in says


def test_the_papers_seed_and_ones_own(sets: Path, plans: list[Planned]) -> None:
    paper = planned(plans, sets, "paper", "mmsd")
    assert (paper.run["sampling"]["seed"], paper.run["protocol"]["departures"]) == (42, {})
    own = planned(plans, sets, "paper", "mmsd", "--seed", "1")
    assert own.run["sampling"]["seed"] == 1
    assert own.run["protocol"]["departures"] == {"seed": {"paper": 42, "run": 1}}
    assert {post.id for post in paper.posts} != {post.id for post in own.posts}


def test_a_balance_by_fields(sets: Path, plans: list[Planned]) -> None:
    def drawn(dataset: str, *more: str) -> list[Sample]:
        done = called("eval", *data_of(dataset, sets), "--out", "run", *more)
        assert not done.exit_code, done.output
        return plans.pop().posts

    found = drawn("sbic", "--balance", "whoTarget", "--samples", "9")
    assert Counter(post.fields["who_target"] for post in found) == {0.0: 9, 1.0: 9}
    found = drawn("4chan", "--balance", "label,implicit", "--samples", "8")
    assert Counter((post.gold.label, post.fields["implicit"]) for post in found if post.gold) == {
        (0, False): 8, (1, False): 8, (1, True): 8,
    }  # fmt: skip
    found = drawn("sbic+ghc", "--balance", "dataset,label", "--samples", "5")
    assert Counter(
        (post.fields["dataset"], post.gold.label) for post in found if post.gold
    ) == dict.fromkeys([("sbic", 0), ("sbic", 1), ("ghc", 0), ("ghc", 1)], 5)

    def refused(dataset: str, balance: str, samples: int = 9) -> str:
        return error(
            "eval",
            *data_of(dataset, sets),
            "--out",
            "run",
            "--balance",
            balance,
            "--samples",
            str(samples),
        )

    assert "balance: the posts of sbic have no colour; they have who_target, targets" in refused(
        "sbic", "colour"
    )
    assert "balance: targets: holds several values a post" in refused("sbic", "targets")
    assert "too many for 4chan (all), which has 1,922 implicit false, 78 implicit true" in refused(
        "4chan", "implicit", 79
    )


# ------------------------------------------------------------------------------------------------ which table is meant


@pytest.mark.parametrize(
    ("dataset", "more", "meant"),
    [
        ("fhm", (), "arcade-table4/arcade"),
        ("fhm", ("--graph", "baseline"), "arcade-table4/baseline"),
        ("fhm", ("--graph", "multiround"), "arcade-table5/multiround"),
        ("fhm", ("--graph", "mv_debate"), "mv-debate-table1/homogeneous"),
        ("h-vli", (), "arcade-table3/fine"),
        ("h-vli", ("--scheme", "binary"), "arcade-table3/binary"),
        ("kodoli", (), "predict-table2/rounds-1-2"),
        ("kodoli", ("--set", "mode=majority"), "predict-table2/majority"),
        ("kodoli", ("--set", "mode=base"), "predict-table1/base"),
        ("sbic", ("--set", "mode=zero-shot"), "antihate-table2/baseline"),
        ("sbic", ("--set", "mode=no-search"), "antihate-table4/no-search"),
        ("gossipcop", (), "mv-debate-table1/homogeneous"),
    ],
)
def test_paper_is_the_table_of_the_sets_own_paper_for_the_graph(
    dataset: str, more: tuple[str, ...], meant: str, sets: Path, plans: list[Planned]
) -> None:
    note = planned(plans, sets, "paper", dataset, *more).run["protocol"]
    assert (note["asked"], f"{note['name']}/{note['condition']}", note["departures"]) == (
        "paper",
        meant,
        {},
    )


def test_a_graph_of_no_paper_takes_its_posts_alone(sets: Path, plans: list[Planned]) -> None:
    peer = planned(plans, sets, "paper", "fhm", "--graph", "self_consistency")
    assert (peer.job.graph, peer.job.count, peer.job.context.rounds) == ("self_consistency", 500, 3)
    assert "no table of a paper has the graph self_consistency on fhm" in peer.warnings[0]
    hybrid = planned(plans, sets, "paper", "fhm", "--graph", "tribunal")
    assert (hybrid.job.graph, hybrid.job.context.rounds, hybrid.job.context.scheme) == (
        "tribunal",
        2,
        "binary",
    )
    assert hybrid.run["protocol"]["departures"] == {"graph": {"paper": "arcade", "run": "tribunal"}}


def test_the_condition_is_the_one_that_was_asked_for_in_other_words(
    sets: Path, plans: list[Planned]
) -> None:
    def condition(protocol: str, dataset: str, *more: str) -> str:
        return str(planned(plans, sets, protocol, dataset, *more).run["protocol"]["condition"])

    assert condition("antihate-table4", "sbic", "--set", "mode=no-details") == "no-details"
    assert condition("arcade-table5", "fhm", "--rounds", "3") == "k3"
    assert condition("arcade-table5", "h-vli", "--graph", "multiround") == "multiround"
    assert (
        condition("antihate-figure3", "sbic", "--set", "temperatures.researcher=1.5")
        == "agent-t1.5"
    )
    plan = planned(plans, sets, "arcade-table5", "h-vli")
    assert plan.run["protocol"]["condition"] == "proposed"
    assert (
        "this is its condition proposed (ARCADE, with K as proposed); the others are"
        in plan.warnings[0]
    )


# --------------------------------------------------------------------------------------------------------- departures


def test_what_one_sets_oneself_beats_the_protocol_and_is_said(
    sets: Path, plans: list[Planned]
) -> None:
    plan = planned(
        plans, sets, "arcade-table4/arcade", "fhm", "--rounds", "3", "--scheme", "fine", "--repeats", "2",
        "--set", "judge_draws=3", "--set", "temperatures.judge=0.7", "--model", "rehearsal",
    )  # fmt: skip
    context = plan.job.context
    assert (context.rounds, context.scheme, plan.job.repeats) == (3, "fine", 2)
    assert plan.run["protocol"]["departures"] == {
        "rounds": {"paper": 2, "run": 3},
        "scheme": {"paper": "binary", "run": "fine"},
        "repeats": {"paper": 1, "run": 2},
        "judge_draws": {"paper": "the graph's own", "run": 3},
        "temperatures.judge": {"paper": "the graph's own", "run": 0.7},
    }
    says = plan.warnings[-1]
    assert says.startswith("arcade-table4/arcade: not the paper's run: ")
    assert "rounds is 3, in the paper 2" in says
    same = planned(
        plans,
        sets,
        "arcade-table4/arcade",
        "fhm",
        "--rounds",
        "2",
        "--scheme",
        "binary",
        "--seed",
        "5",
    )
    assert same.run["protocol"]["departures"] == {}


def test_the_papers_models_are_asked_where_one_says_so(sets: Path, plans: list[Planned]) -> None:
    own = planned(plans, sets, "arcade-table4/arcade", "fhm")
    assert own.job.context.aux_model is None
    assert "the paper's models are Qwen3-VL-Plus" in own.warnings[0]
    assert "--paper-models" in own.warnings[0]
    theirs = planned(
        plans,
        sets,
        "arcade-table4/arcade",
        "fhm",
        "--paper-models",
        "--set",
        "judge_model=openai:gpt-4o",
    )
    assert (theirs.job.context.aux_model, theirs.job.context.judge_model) == (
        "qwen:qwen3-vl-plus",
        "openai:gpt-4o",
    )
    assert theirs.warnings == [warning for warning in theirs.warnings if "models" not in warning]
    weak = planned(plans, sets, "arcade-table5/weak-strong", "h-vli", "--paper-models").job.context
    assert (weak.aux_model, weak.judge_model) == ("qwen:qwen-vl-plus", "qwen:qwen3-vl-plus")
    views = planned(
        plans, sets, "mv-debate-figure3", "mmsd", "--paper-models", "--set", "aux_model=openai:x"
    ).job.context
    assert (views.line_up, views.aux_model) == ("mv-debate-paper-control", "openai:x")
    mixed = planned(plans, sets, "mv-debate-table1/heterogeneous-open", "fhm", "--paper-models")
    assert mixed.job.context.line_up == "mv-debate-paper-open"
    given = ("--out", "run", "--protocol")
    says = error("eval", *data_of("h-vli", sets), *given, "arcade-table5/weak-strong")
    assert "is made by its models (aux_model qwen:qwen-vl-plus" in says
    says = error("eval", *data_of("mmsd", sets), *given, "mv-debate-table1/symmetric")
    assert (
        "is made by its models (line_up mv-debate-paper-mad); ask for the paper's (--paper-models)"
        in says
    )
    says = error("eval", *data_of("sbic", sets), *given, "antihate-table2", "--paper-models")
    assert "no model of the paper's can be asked by name here" in says


def test_another_split_than_the_papers_is_a_departure(sets: Path, plans: list[Planned]) -> None:
    train = planned(plans, sets, "antihate-table2", "sbic", "--split", "dev")
    assert train.run["protocol"]["departures"] == {"split": {"paper": "all", "run": "dev"}}
    assert train.run["data"]["split"] == "dev"
    assert any("split is dev, in the paper all" in each for each in train.warnings)
    named = planned(plans, sets, "antihate-table2", "sbic", "--split", "all")
    assert named.run["protocol"]["departures"] == {}
    alone = planned(plans, sets, "paper", "sbic", "--graph", "mv_debate", "--split", "dev")
    assert alone.run["protocol"]["departures"] == {"split": {"paper": "all", "run": "dev"}}
    assert any("split is dev" in each for each in alone.warnings)
