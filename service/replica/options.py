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
    """the graph that judges where a request names none"""
    settings: JSON = Field(default_factory=dict)
    """settings of every case, by the names of docs/settings.md"""
    in_flight: int = Field(64, ge=1, le=10_000)
    """cases that a replica tries at the same time"""
    queue: int = Field(1000, ge=0)
    """cases that may wait; more are refused with 429"""
    case_calls: int = Field(40, ge=1)
    """calls that a case of a key with a daily limit may take, unless its max_calls says"""
    case_tokens: int = Field(50_000, ge=1)
    """tokens that it may take, unless its max_tokens says"""
    longest_wait: float = Field(60.0, ge=0, le=600)
    """seconds that ?wait= may ask for"""
    hold_seconds: float = Field(3600.0, ge=0)
    """seconds for which a post is held while no model answers; then it is a failure"""
    takeover: float = Field(30.0, gt=0)
    """seconds of silence after which others take a replica's cases over"""
    most_body: int = Field(38 * 1024**2, ge=1024)
    """bytes of a request's body; of a batch, batch_bytes counts"""
    body_seconds: float = Field(300.0, gt=0)
    """seconds in which a request's body has to arrive"""
    head_seconds: float = Field(20.0, gt=0)
    """seconds in which the head of a request has to arrive"""
    keep_alive: int = Field(620, ge=1)
    """seconds that a connection stays open between requests; give more than your balancer's"""
    answer_seconds: float = Field(60.0, gt=0)
    """seconds that a client may take nothing of its answer"""
    connections: int = Field(900, ge=1)
    """connections at a time; one more closes the one idle longest"""
    batch_rows: int = Field(100_000, ge=1)
    """rows that one batch may have"""
    batch_bytes: int = Field(64 * 1024**2, ge=1)
    """bytes that the file of one batch may have"""
    batch_queue: int = Field(1_000_000, ge=1)
    """rows of all batches that may wait; more are refused with 429"""
    batch_share: float = Field(0.75, gt=0, le=1)
    """the part of in_flight that batches may take"""
    batch_forgotten: float = Field(86_400.0, ge=0)
    """seconds after which a batch with keep: false is deleted"""
    perspective_drop: bool = Field(
        False,
        description="whether a request in place of the Perspective API is answered without the attributes that can't "
        "be had; else only if it asks for that by dropUnsupportedAttributes",
    )
    prices: Path | None = None
    """the price table (TOML) that budgets in money are counted by"""
    mapping: Path | None = None
    """the file of what is done by category, and of the redress, which letters to authors tell"""
    public_url: str | None = None
    """where others reach this service; links in webhooks begin with it"""
    webhook_http: bool = False
    """whether an admin key may add a webhook without TLS"""
    webhook_timeout: float = Field(20.0, gt=0, le=300)
    """seconds for one attempt to send a message"""
    webhook_retries: tuple[Annotated[float, Field(ge=0)], ...] = RETRIES
    """seconds before the second attempt, the third, …; after the last it is given up"""
    webhook_days: float = Field(7.0, ge=0)
    """days that a delivered message is kept"""
    webhook_dead_days: float = Field(30.0, ge=0)
    """days that a message that was given up is kept"""
    appeal_days: float = Field(184.0, ge=0)
    """days after a decision in which it may be appealed"""
    second_opinions: float = Field(0.0, ge=0, le=1)
    """the share of people's decisions that another sees, too"""
    second_opinions_of_court: float = Field(0.0, ge=0, le=1)
    """the share of the cases that the court decided alone that a person sees"""
    retain_words: float | None = Field(None, ge=0)
    """how long the words of decided cases are kept, such as 90d or 12h; else until erased"""
    retain_cases: float | None = Field(None, ge=0)
    """after how long cases are deleted whole once they came to rest, such as 365d; else never"""
    retain_dismissed: float | None = Field(None, ge=0)
    """after how long those are that were found not hateful and no person had; else never"""
    graceful: float = Field(30.0, ge=0)
    """seconds that a stop waits for what is in flight"""
    workers: int = Field(1, ge=1, le=64)
    """processes on the one port, each a replica"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """from which on a line is logged: debug, info, warning or error"""
    log_posts: bool = False
    """whether posts' words may stand in the log"""
    open_metrics: bool = False
    """whether /metrics is open to all; else to the scope audit"""

    try_: bool = True
    """whether /try is there, on which whoever may judge tries a post"""
    desk_hours: float = Field(12.0, gt=0, le=168)
    """hours after which one has to sign in to the desk again"""
    desk_idle: float = Field(60.0, gt=0)
    """minutes without a request after which one has to, too"""
    desk_lease: float = Field(900.0, gt=0, le=86_400)
    """seconds for which a claimed case is one person's"""
    desk_undo: float = Field(30.0, ge=0, le=3600)
    """seconds in which a decision at the desk can be undone; then it takes effect"""
    desk_verdict: Literal["before", "after"] = "before"
    """whether a reviewer sees the model verdict before or after their own decision: before or after"""
    desk_break: int = Field(15, ge=0)
    """hard cases in a row after which a break is suggested; 0: never"""
    desk_user_header: str | None = None
    """the header in which a trusted proxy names who uses the desk, such as X-Forwarded-User"""
    desk_proxy: tuple[IPvAnyNetwork, ...] | None = None
    """addresses or networks of that proxy, by commas; from elsewhere the header isn't believed"""
    desk_role_header: str | None = None
    """the header in which the proxy says reviewer, lead or auditor; else desk_role counts"""
    desk_role: Literal["reviewer", "lead", "auditor"] = "reviewer"
    """the role of those whom the proxy names: reviewer, lead or auditor"""

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
