"""Options that the operator of a service sets. No request can change any of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, IPvAnyNetwork, ValidationError, field_validator

from tribunal.core.calls import Frozen
from tribunal.core.text import parse_json, suggest_name
from tribunal.core.times import seconds_of
from tribunal.errors import BadInput
from tribunal.schema import JSON
from tribunal.settings.validation import describe_validation_error

# Not TRIBUNAL_SERVICE_: Kubernetes sets TRIBUNAL_SERVICE_HOST and …_PORT itself for a service called tribunal.
PREFIX = "TRIBUNAL_SERVE_"

# The schedule of the Standard Webhooks specification: ten attempts within 76 hours.
RETRIES = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)


class Described(Frozen):
    """The base of models whose fields are described below them, in OpenAPI too.

    Pydantic reads the source for that when the class is made. That takes time, and it blocks the loop of a LangGraph
    server if a node imports the module. So only models of the service derive from this.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


class ServiceOptions(Described):
    """The options of one replica; docs/service.md has them as a table."""

    host: str = "127.0.0.1"
    """the address to listen on"""
    port: int = Field(8080, ge=0, le=65535)
    """the port; 0 takes a free one"""
    database: str | None = None
    """postgresql://…; without it a SQLite file in the data folder"""
    graph: str = "tribunal"
    """the graph for requests that name none"""
    settings: JSON = Field(default_factory=dict)
    """settings of every case (docs/settings.md)"""
    in_flight: int = Field(64, ge=1, le=10_000)
    """cases that a replica tries at the same time"""
    queue: int = Field(1000, ge=0)
    """maximum number of waiting cases; more are refused with 429"""
    case_calls: int = Field(40, ge=1)
    """calls reserved for a case of a key with a daily limit, if the case sets no max_calls"""
    case_tokens: int = Field(50_000, ge=1)
    """tokens reserved for it, if the case sets no max_tokens"""
    longest_wait: float = Field(60.0, ge=0, le=600)
    """longest ?wait= in seconds"""
    hold_seconds: float = Field(3600.0, ge=0)
    """seconds that a case waits while no model answers; then it fails"""
    takeover: float = Field(30.0, gt=0)
    """seconds without a heartbeat after which other replicas take over a replica's cases"""
    most_body: int = Field(38 * 1024**2, ge=1024)
    """maximum bytes of a request's body; batch_bytes applies to batches"""
    body_seconds: float = Field(300.0, gt=0)
    """seconds in which a request's body must arrive"""
    head_seconds: float = Field(20.0, gt=0)
    """seconds in which a request's head must arrive"""
    keep_alive: int = Field(620, ge=1)
    """seconds that a connection stays open between requests; give more than your balancer's"""
    answer_seconds: float = Field(60.0, gt=0)
    """seconds after which a client that reads nothing of its answer is disconnected"""
    connections: int = Field(900, ge=1)
    """maximum connections; a further connection closes the longest idle one"""
    batch_rows: int = Field(100_000, ge=1)
    """maximum rows of a batch"""
    batch_bytes: int = Field(64 * 1024**2, ge=1)
    """maximum bytes of a batch's file"""
    batch_queue: int = Field(1_000_000, ge=1)
    """maximum waiting rows of all batches; more are refused with 429"""
    batch_share: float = Field(0.75, gt=0, le=1)
    """the share of --in-flight for batches"""
    batch_forgotten: float = Field(86_400.0, ge=0)
    """seconds after which a batch with keep: false is deleted"""
    perspective_drop: bool = Field(
        False,
        description="whether a request in place of the Perspective API is answered without the attributes that can't "
        "be had; else only if it asks for that by dropUnsupportedAttributes",
    )
    prices: Path | None = None
    """the price table (TOML) for budgets in money"""
    mapping: Path | None = None
    """the file (TOML) with the measure for each category, and the redress, for letters to authors"""
    public_url: str | None = None
    """this service's public address, with which links in webhooks begin"""
    webhook_http: bool = False
    """whether webhooks without TLS can be added"""
    webhook_timeout: float = Field(20.0, gt=0, le=300)
    """seconds for one attempt to send a message"""
    webhook_retries: tuple[Annotated[float, Field(ge=0)], ...] = RETRIES
    """seconds before the second attempt, the third, …; after the last attempt the message fails"""
    webhook_days: float = Field(7.0, ge=0)
    """days after which a delivered message is deleted"""
    webhook_dead_days: float = Field(30.0, ge=0)
    """days after which a failed message is deleted"""
    appeal_days: float = Field(184.0, ge=0)
    """days in which a decision can be appealed"""
    second_opinions: float = Field(0.0, ge=0, le=1)
    """the share of people's decisions that a second person reviews"""
    second_opinions_of_court: float = Field(0.0, ge=0, le=1)
    """the share of automatic decisions that a person reviews"""
    retain_words: float | None = Field(None, ge=0)
    """delete the words of decided cases after this time, such as 90d or 12h; default: never"""
    retain_cases: float | None = Field(None, ge=0)
    """delete closed cases after this time, such as 365d; default: never"""
    retain_dismissed: float | None = Field(None, ge=0)
    """delete non-hateful cases that nobody reviewed after this time; default: never"""
    graceful: float = Field(30.0, ge=0)
    """seconds that a stop waits for running cases"""
    workers: int = Field(1, ge=1, le=64)
    """number of processes on the port, each a replica"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """minimum log level: debug, info, warning or error"""
    log_posts: bool = False
    """whether the log may contain words of posts"""
    open_metrics: bool = False
    """whether /metrics is open to everybody; otherwise it needs the scope audit"""

    try_: bool = True
    """whether /try is available, where users with the scope judge can try a post"""
    desk_hours: float = Field(12.0, gt=0, le=168)
    """hours after which a session at the desk ends"""
    desk_idle: float = Field(60.0, gt=0)
    """minutes without a request after which it ends"""
    desk_lease: float = Field(900.0, gt=0, le=86_400)
    """seconds that a claim on a case lasts"""
    desk_undo: float = Field(30.0, ge=0, le=3600)
    """seconds in which a decision at the desk can be undone before it takes effect"""
    desk_verdict: Literal["before", "after"] = "before"
    """whether a reviewer sees the model verdict before or after their own decision: before or after"""
    desk_break: int = Field(15, ge=0)
    """hard cases in a row after which the desk suggests a break; 0: never"""
    desk_user_header: str | None = None
    """the header in which a trusted proxy names the desk's user, such as X-Forwarded-User"""
    desk_proxy: tuple[IPvAnyNetwork, ...] | None = None
    """that proxy's addresses or networks, separated by commas; the header is ignored from all others"""
    desk_role_header: str | None = None
    """the header in which the proxy names the role: reviewer, lead or auditor; default: --desk-role"""
    desk_role: Literal["reviewer", "lead", "auditor"] = "reviewer"
    """the role of users that the proxy names: reviewer, lead or auditor"""

    @field_validator("desk_user_header", "desk_role_header")
    @classmethod
    def _check_header_name(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", given):
            raise ValueError("is no name of a header")
        return given

    @field_validator("webhook_retries", "desk_proxy", mode="before")
    @classmethod
    def _split_list(cls, given: object) -> object:
        return (
            [part for part in given.split(",") if part.strip()] if isinstance(given, str) else given
        )

    @field_validator("retain_words", "retain_cases", "retain_dismissed", mode="before")
    @classmethod
    def _parse_age(cls, given: object) -> object:
        return seconds_of(given) if isinstance(given, str) else given

    @field_validator("settings", mode="before")
    @classmethod
    def _parse_settings(cls, given: object) -> object:
        return parse_json(given) if isinstance(given, str) else given


def variable_of_option(name: str) -> str:
    """Return the environment variable that sets an option. Other commands read the database's, too."""
    return "TRIBUNAL_DATABASE" if name == "database" else f"{PREFIX}{name.rstrip('_').upper()}"


# Technical limits, which few people change: one option of the command line sets any of them.
LIMITS = (
    "longest_wait", "most_body", "body_seconds", "head_seconds", "answer_seconds", "connections", "batch_rows",
    "batch_bytes", "batch_queue", "batch_share", "batch_forgotten", "webhook_timeout", "webhook_retries",
    "webhook_days", "webhook_dead_days",
)  # fmt: skip


def flag_of_option(name: str) -> str:
    """Return the flag that sets an option on the command line."""
    return f"--limit {name}" if name in LIMITS else f"--{name.rstrip('_').replace('_', '-')}"


def options_from(
    environment: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> ServiceOptions:
    """Return the options that the environment sets, and above them those that are given.

    Raises:
        BadInput: there is no such option, or its value is wrong.
    """
    names = {variable_of_option(name): name for name in ServiceOptions.model_fields}
    for each in environment:
        if each.startswith(PREFIX) and each not in names:
            near = suggest_name(each, names)
            raise BadInput(f"{each}: no such option{near and f'; {near}'}")
    from_environment = {
        name: environment[each] for each, name in names.items() if environment.get(each)
    }
    try:
        return ServiceOptions.model_validate({**from_environment, **(given or {})})
    except ValidationError as error:
        raise BadInput(describe_validation_error(error)) from error
