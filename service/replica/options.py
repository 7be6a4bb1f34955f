"""What the operator of a service sets. No request can change any of it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from tribunal.schema import JSON, Frozen


class ServiceOptions(Frozen):
    """The options of one replica; docs/service.md has them as a table."""

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8080, ge=0, le=65535, description="the port; 0 takes a free one")
    database: str | None = Field(
        default=None, description="postgresql://…; without it a SQLite file in the data folder"
    )
    graph: str = Field(default="tribunal", description="the graph that judges where a request names none")
    settings: JSON = Field(default_factory=dict, description="settings of every case, by the names of docs/settings.md")
    in_flight: int = Field(default=64, ge=1, le=10_000, description="cases that a replica tries at the same time")
    queue: int = Field(default=1000, ge=0, description="cases that may wait; more are refused with 429")
    longest_wait: float = Field(default=60.0, ge=0, le=600, description="seconds that ?wait= may ask for")
    takeover: float = Field(
        default=30.0,
        gt=0,
        description="seconds of silence after which a replica counts as dead and its cases go on elsewhere",
    )
    prices: Path | None = Field(default=None, description="the price table (TOML) that budgets in money are counted by")
    graceful: float = Field(default=30.0, ge=0, description="seconds that a stop waits for what is in flight")
