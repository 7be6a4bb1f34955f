"""What is shipped names what there is: the image, compose.yaml, and Prometheus' configuration. Nothing is built."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests import PROJECT
from tests.service.live import with_routes
from tribunal.commands import COMMANDS
from tribunal.service.replica.options import ServiceOptions, options_from

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, each in SERVICES.items() if each["image"] == "tribunal"]
IMAGE = (PROJECT / "Dockerfile").read_text()
_, FIRST, LAST = re.split(r"(?m)^FROM ", IMAGE)


def paths() -> set[str]:
    return set(with_routes(True).openapi()["paths"])


def in_image() -> dict[str, str]:
    """The environment of the last stage."""
    lines = re.findall(r"ENV ((?:[^\\\n]|\\\n)+)", LAST)
    return dict(each.split("=", 1) for line in lines for each in line.split() if "=" in each)


def test_each_service_runs_a_command_that_there_is() -> None:
    assert OURS == ["migrate", "tribunal"]
    assert (
        {SERVICES[name]["command"][0] for name in OURS} == {"service", "serve"} <= COMMANDS.keys()
    )
    assert re.search(r'ENTRYPOINT \["tribunal"\]\nCMD \["serve"\]', LAST)


def test_what_they_set_are_options() -> None:
    environment = {name: str(value) for name, value in SERVICES["tribunal"]["environment"].items()}
    password = re.sub(
        r"\$\{TRIBUNAL_DATABASE_PASSWORD[^}]*\}", "secret", environment["TRIBUNAL_DATABASE"]
    )
    options = options_from({**in_image(), **environment, "TRIBUNAL_DATABASE": password})
    assert options.database == "postgresql://tribunal:secret@postgres/tribunal"
    assert (options.host, options.open_metrics) == ("0.0.0.0", True)
    assert float(SERVICES["tribunal"]["stop_grace_period"].removesuffix("s")) > options.graceful


def test_no_secret_is_baked_in() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("KEY|PASSWORD|DATABASE", variable) and variable != "POSTGRES_DB":
                assert "${" in value, f"{name}: {variable}"
    kept_out = (PROJECT / ".dockerignore").read_text().splitlines()
    assert kept_out[1] == "*"
    assert "**/.env" in kept_out[-3:]


def test_everything_that_the_package_is_made_of_reaches_the_image() -> None:
    let_in = {
        line[1:]
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    linked = {each.resolve().name for each in (PROJECT / "tribunal").iterdir() if each.is_symlink()}
    assert linked | {"tribunal", "pyproject.toml", "uv.lock", "README.md", "LICENSE"} <= let_in
    assert all((PROJECT / name).exists() for name in let_in)
    [copied] = re.findall(r"COPY (pyproject.*) \./", FIRST)
    assert set(copied.split()) <= let_in
    assert (
        "service"
        in tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
    )
    assert FIRST.count("--extra service") == 2


def test_the_last_stage_has_a_user_and_no_compiler() -> None:
    assert not re.search(r"apt-get|gcc|build-essential|\buv\b|pip install", LAST)
    assert LAST.index("USER 10001") < LAST.index("ENTRYPOINT")
    for name in OURS:
        assert SERVICES[name]["read_only"]
        assert SERVICES[name]["cap_drop"] == ["ALL"]


@pytest.mark.long
def test_what_watches_it_asks_what_there_is() -> None:
    config = yaml.safe_load((PROJECT / "deploy" / "prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert host in SERVICES
    assert int(port) == ServiceOptions().port
    assert job["metrics_path"] in paths()
    [probed] = re.findall(rf"http://127\.0\.0\.1:{port}(/\w+)", LAST)
    assert probed in paths()
    assert SERVICES["tribunal"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    mounted = [each.split(":")[0] for service in SERVICES.values() for each in service["volumes"]]
    assert all(
        (PROJECT / each).is_file() if each.startswith("./") else each in COMPOSE["volumes"]
        for each in mounted
    )


def test_only_official_images_are_named() -> None:
    pinned = {each["image"] for each in SERVICES.values()} - {"tribunal"}
    pinned |= set(re.findall(r"(?m)^FROM (\S+)", IMAGE))
    assert {each.partition("@")[0] for each in pinned} == {
        "postgres:17",
        "prom/prometheus:v3.5.0",
        "python:3.11-slim",
    }
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", each) for each in pinned)
