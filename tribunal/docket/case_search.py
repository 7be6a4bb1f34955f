"""Cases, found: by when, outcome, category, policy, way in, who decided, and by the post."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import Text, case, cast, func, null, or_, select

from tribunal.core.times import database_now
from tribunal.errors import BadInput
from tribunal.prompts.policy_parts import Severity
from tribunal.schema import JSON, Frozen
from tribunal.store.engine import Store
from tribunal.store.tables import cases

_SUMMARY = (
    "id", "created", "finished", "via", "graph", "status", "outcome", "category", "hateful", "uncertain", "confidence",
    "language", "reviewer", "policy_name", "policy_sha", "prompts_sha", "protocol_sha", "post_id", "post_sha", "money",
    "batch_id", "erased",
)  # fmt: skip


class ContentFilter(Frozen):
    """Say which cases are wanted by their posts and by what was come to: at the desk, over HTTP and at the terminal.

    Ages are in hours, confidence goes from 0 to 1.
    """

    category: str | None = Field(
        default=None,
        max_length=200,
        examples=["NotHate"],
        description="the verdict's; the models' while it waits",
    )
    clause: str | None = Field(
        default=None,
        max_length=80,
        pattern="^\\S+$",
        examples=["H1.2"],
        description="a clause that it rests on",
    )
    severity: Severity | None = Field(
        default=None, examples=["high"], description="the highest of its clauses"
    )
    image: Literal["with", "without"] | None = Field(
        default=None, examples=["with"], description="whether the post has an image"
    )
    language: str | None = Field(
        default=None, max_length=80, examples=["de"], description="of the post, by its code"
    )
    older: float | None = Field(default=None, ge=0, examples=[24], description="than so many hours")
    younger: float | None = Field(
        default=None, ge=0, examples=[24], description="than so many hours"
    )
    surer: float | None = Field(
        default=None, ge=0, le=1, examples=[0.5], description="at least so confident"
    )
    less_sure: float | None = Field(
        default=None, ge=0, le=1, examples=[0.5], description="at most so confident"
    )
    cluster: str | None = Field(
        default=None,
        max_length=80,
        examples=["case-20261127-1a2b3c4d"],
        description="find the cases to review with this case's text, image and policy",
    )
    text: str | None = Field(
        default=None, max_length=1000, examples=["tea"], description="words of the post"
    )


class CaseFilter(ContentFilter):
    """Say which cases are wanted; what is None may be anything. Times are when a case was taken in, of the epoch.

    `policy` is its name, or how its hash begins; `reviewer` the key's name, or the one given beside it.
    """

    outcome: str | None = None
    status: str | None = None
    hateful: bool | None = None
    uncertain: bool | None = None
    via: str | None = None
    batch_id: str | None = None
    post_id: str | None = None
    policy_sha: str | None = None
    policy: str | None = None
    reviewer: str | None = None
    since: float | None = None
    until: float | None = None


async def find_cases(
    store: Store,
    wanted: CaseFilter,
    *conditions: Any,
    before: str | None = None,
    limit: int = 50,
    columns: Sequence[Any] | None = None,
) -> list[JSON]:
    """Return a page of cases, the newest first. New trials of appeals are no cases of their own.

    `before` is the id of the last case of the page before; `columns` what is read of each, by default all but posts,
    settings and records.
    """
    shown = [cases.c[name] for name in _SUMMARY] if columns is None else columns
    query = (
        select(*shown)
        .where(cases.c.appeal_id.is_(None), *conditions)
        .order_by(cases.c.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(cases.c.id < before)
    return await store.fetch_rows(query.where(*filter_conditions(store, wanted)))


def filter_conditions(store: Store, wanted: ContentFilter) -> list[Any]:
    """Return the conditions of what a filter asks for."""
    return [_condition(store, name, value) for name, value in wanted if value is not None]


def _condition(store: Store, name: str, value: Any) -> Any:
    age = {"older": cases.c.created.__lt__, "younger": cases.c.created.__gt__}
    match name:
        case "older" | "younger":
            return age[name](database_now() - 3600 * value)
        case "surer":
            return cases.c.confidence >= value
        case "less_sure":
            return cases.c.confidence <= value
        case "category":
            return or_(cases.c.category == value, cases.c.model_category == value)
        case "clause":
            return cases.c.cited.contains(f" {value} ", autoescape=True)
        case "image":
            return (
                cases.c.image_sha.is_not(None) if value == "with" else cases.c.image_sha.is_(None)
            )
        case "cluster":
            other = cases.alias()
            return (
                cases.c.same_text
                == select(other.c.same_text).where(other.c.id == value).scalar_subquery()
            )
        case "since":
            return cases.c.created >= value
        case "until":
            return cases.c.created < value
        case "policy":
            return or_(
                cases.c.policy_name == value, cases.c.policy_sha.startswith(value, autoescape=True)
            )
        case "text":
            return post_text(store).icontains(value, autoescape=True)
        case "reviewer":
            named = cases.c.reviewer
            as_person = named.startswith(f"{value} (", autoescape=True)
            return or_(named == value, as_person, named.endswith(f"({value})", autoescape=True))
    return cases.c[name] == value


def post_text(store: Store) -> Any:
    """Return the words of a case's post, as a column."""
    words = cases.c.post["text"].as_string()
    if not store.postgres:
        return words
    # PostgreSQL reads no JSON in which a NUL is written; such a post is there, and its words can't be looked for.
    return case((func.strpos(cast(cases.c.post, Text), "\\u0000") > 0, null()), else_=words)


async def load_case(store: Store, case_id: str) -> JSON:
    """Return a case whole: its columns, post, settings and record.

    Raises:
        BadInput: there is none.
    """
    shown = [cases.c[name] for name in (*_SUMMARY, "post", "settings", "record")]
    row = await store.fetch_row(select(*shown).where(cases.c.id == case_id))
    if row is None:
        raise BadInput(
            f"case: {case_id[:80]}: there is none in {store.address}; tribunal cases list shows them"
        )
    return row
