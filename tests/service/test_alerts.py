"""The alerts and the board that are shipped: each names metrics and labels that there are, and rings when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests import PROJECT

RULES: list[dict[str, Any]] = yaml.safe_load((PROJECT / "deploy/alerts.yml").read_text())["groups"][
    0
]["rules"]
BOARD: dict[str, Any] = json.loads((PROJECT / "deploy/grafana-board.json").read_text())
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{
        f"{panel['title']}, {each['refId']}": each["expr"]
        for panel in BOARD["panels"]
        for each in panel["targets"]
    },
}
ROW = re.compile(r"^\| `(tribunal_\w+)` \| ([^|]*)\|", re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Return the labels of each metric, by the table of docs/operating.md, which another test holds to the service."""
    page = (PROJECT / "docs/operating.md").read_text("utf-8")
    return {name: set(re.findall(r"\w+", labels)) for name, labels in ROW.findall(page)}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=list(EXPRESSIONS))
def test_what_it_asks_for_is_measured(expression: str) -> None:
    known = documented()
    named = {name.removesuffix("_bucket") for name in re.findall(r"tribunal_\w+", expression)}
    assert named <= known.keys()
    labels = {label for name in named for label in known[name]} | {"le", "job"}
    grouped = {
        each.strip()
        for found in re.findall(r"by \(([^)]*)\)", expression)
        for each in found.split(",")
    }
    matched = {
        each
        for braces in re.findall(r"\{([^}]*)\}", expression)
        for each in re.findall(r"(\w+)=", braces)
    }
    assert grouped | matched <= labels


def test_no_panel_lies_on_another() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(set(places)) == len(places)


# Minutes of samples, one a minute, and which alerts they ring.
CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "all is well": (
        {
            'up{job="tribunal", instance="a"}': "1x60",
            'tribunal_posts_total{graph="tribunal", outcome="verdict"}': "0+60x60",
            'tribunal_posts_total{graph="tribunal", outcome="failure"}': "0+1x60",
            'tribunal_model_calls_total{model="m", cached="no"}': "0+240x60",
            'tribunal_model_failures_total{model="m", kind="timeout"}': "0+2x60",
            'tribunal_cases{status="queued"}': "3x60",
            "tribunal_keys_ending": "0x60",
        },
        set(),
    ),
    "a replica is gone": ({'up{job="tribunal", instance="a"}': "0x60"}, {"TribunalDown"}),
    "a model's server is down": (
        {
            'tribunal_model_calls_total{model="m", cached="no"}': "0+60x60",
            'tribunal_model_failures_total{model="m", kind="connection"}': "0+60x60",
            'tribunal_posts_total{graph="tribunal", outcome="failure"}': "0+60x60",
        },
        {"TribunalModelFails", "TribunalPostsFail"},
    ),
    "posts are held for a provider": (
        {'tribunal_provider_open{provider="openai", instance="a"}': "1x60"},
        {"TribunalProviderDown"},
    ),
    "two calls, both failed": (
        {
            'tribunal_model_calls_total{model="m", cached="no"}': "0 2x59",
            'tribunal_model_failures_total{model="m", kind="timeout"}': "0 2x59",
        },
        set(),
    ),
    "more come than are decided": (
        {'tribunal_cases{status="queued"}': "0+20x60"},
        {"TribunalQueueGrows"},
    ),
    "a slow hour": (
        {
            'tribunal_post_seconds_bucket{graph="tribunal", le="60"}': "0+10x60",
            'tribunal_post_seconds_bucket{graph="tribunal", le="120"}': "0+60x60",
            'tribunal_post_seconds_bucket{graph="tribunal", le="+Inf"}': "0+60x60",
        },
        {"TribunalIsSlow"},
    ),
    "errors": (
        {
            'tribunal_http_requests_total{route="/v1/judge", method="POST", status="500"}': "0+10x60",
            'tribunal_http_requests_total{route="/v1/judge", method="POST", status="200"}': "0+60x60",
        },
        {"TribunalErrors"},
    ),
    "a model that refuses": (
        {
            'tribunal_model_calls_total{model="m", cached="no"}': "0+60x120",
            'tribunal_model_refusals_total{model="m", kind="policy"}': "0+20x120",
        },
        {"TribunalModelRefuses"},
    ),
    "a key that ends": ({"tribunal_keys_ending": "0x30 1x30"}, {"TribunalKeyEnds"}),
}


@pytest.mark.parametrize(("samples", "ringing"), CASES.values(), ids=list(CASES))
@pytest.mark.long
def test_it_rings_when_it_should(
    samples: dict[str, str], ringing: set[str], tmp_path: Path
) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool, of Prometheus, is not installed")
    series = [{"series": name, "values": f"{values}"} for name, values in samples.items()]
    for rule in RULES:
        held = {
            "rule_files": [str(PROJECT / "deploy/alerts.yml")],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": series,
                    "promql_expr_test": [
                        {
                            "expr": f'count(ALERTS{{alertname="{rule["alert"]}", alertstate="firing"}}) or vector(0)',
                            "eval_time": "55m",
                            "exp_samples": [
                                {"labels": "{}", "value": int(rule["alert"] in ringing)}
                            ],
                        }
                    ],
                }
            ],
        }
        file = tmp_path / f"{rule['alert']}.yml"
        file.write_text(yaml.safe_dump(held))
        done = subprocess.run(
            [promtool, "test", "rules", str(file)], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{rule['alert']}: {done.stdout}{done.stderr}"
