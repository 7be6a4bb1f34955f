"""Statements of reasons made of decided cases: each case once, in batches of at most 100."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, NamedTuple, Self, get_args

from pydantic import Field, StringConstraints, ValidationError, model_validator
from sqlalchemy import exists, insert, or_
from sqlalchemy.exc import IntegrityError

from tribunal.core.text import count_noun, make_visible, one_line
from tribunal.core.times import database_now
from tribunal.errors import BadInput
from tribunal.explanations.deciders import Finding, list_findings
from tribunal.explanations.notices import (
    FIELD,
    LAST_DAY,
    Automated,
    Category,
    ContentLanguage,
    ContentType,
    Country,
    DecisionMapping,
    Facts,
    Ground,
    Source,
    StatementFields,
    YesNo,
    applied_clauses,
    automation_of,
    has_stated_reason,
)
from tribunal.process.files import write_whole
from tribunal.prompts.policy import Policy
from tribunal.review.case_tables import (
    count_cases,
    decision_time_conditions,
    finished_cases,
    has_words,
    policy_of_row,
)
from tribunal.schema import JSON
from tribunal.settings.validation import describe_validation_error
from tribunal.store.audit import OPERATOR, LogEntry, append, sha
from tribunal.store.engine import Store
from tribunal.store.tables import PRACTICE, cases, statements

_SPEECH = "STATEMENT_CATEGORY_ILLEGAL_OR_HARMFUL_SPEECH"
_GONE = "[…]"
_MOST = 2000
_WORD = re.compile(r"\w+")
_RUN = 3  # words in a row that an explanation shares with the post are taken for a quotation
_QUOTED = re.compile(
    r"“[^”]*”|„[^“”]*[“”]|\"[^\"]*\"|«[^»]*»|「[^」]*」|『[^』]*』|‘[^’]*’(?!\w)|(?<!\w)'[^']*'(?!\w)"
)
_PERSONAL = re.compile(
    r"https?://\S+|www\.\S+|[\w.+-]+@[\w-]+\.\w[\w.-]*|[@#]\w+|\+?\d[\d\s()/-]{5,}\d"
)


@dataclass
class StatementsMade:
    """Statements that were made: how many are in each file that was written, and the cases left out, by reason."""

    files: Counter[Path] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


class StatementRequest(NamedTuple):
    """Say which cases are stated, and how: `explanations` are the model's own words, with quotations taken out."""

    mapping: DecisionMapping
    since: float | None = None
    until: float | None = None
    explanations: bool = False


async def make_statements(store: Store, folder: Path, wanted: StatementRequest) -> StatementsMade:
    """Make a statement of each case decided against a post, and write them down; of a case that has one, none.

    Raises:
        BadInput: a field of a statement is missing or wrong. Then none was made.
        OSError: a file can't be written. Those before it are made.
    """
    async for _ in _missing_statements(store, wanted, StatementsMade()):
        pass  # every one is held to the rules before the first is kept
    made = StatementsMade()
    batch = list[tuple[str, Statement]]()
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    name = f"statements-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"

    async def keep_batch() -> None:
        path = folder / f"{name}-{len(made.files) + 1:04}.json"
        await _keep_batch(store, path, batch)
        made.files[path] = len(batch)
        batch.clear()

    async for each in _missing_statements(store, wanted, made):
        batch.append(each)
        if len(batch) == MOST_IN_A_BATCH:
            await keep_batch()
    if batch:
        await keep_batch()
    return made


async def _missing_statements(
    store: Store, wanted: StatementRequest, made: StatementsMade
) -> AsyncIterator[tuple[str, Statement]]:
    """Give the statements that are still to be made, with the ids of their cases."""
    within = decision_time_conditions(wanted.since, wanted.until)
    # The first category of a scheme is that of posts that stand; every other one has something against them.
    restricted = or_(cases.c.hateful.is_(True), cases.c.record["label"].as_integer() > 0)
    against = (cases.c.outcome == "verdict", cases.c.hateful.is_not(None), restricted, *within)
    stated = exists().where(statements.c.case_id == cases.c.id)
    before = await count_cases(store, *against, stated)
    if before:
        made.left_out["stated before"] = before
    async for row in finished_cases(store, *against, ~stated):
        if not row["record"] or row["record"].get("outcome") != "verdict":
            made.left_out["without a record, or erased"] += 1
        elif row["practice"]:
            made.left_out[PRACTICE[row["practice"]]] += 1
        elif row["erased"] is None and not has_stated_reason(row["record"]):
            made.left_out["without a reason that could be stated: a person should look"] += 1
        else:
            policy = await policy_of_row(store, row)
            yield row["id"], statement_of(row, wanted, policy)


async def _keep_batch(store: Store, path: Path, batch: list[tuple[str, Statement]]) -> None:
    """Keep a batch in the database and write its file: both, or neither."""
    bodies = [each.to_wire() for _, each in batch]
    common = {"created": database_now(), "file": path.name, "status": "made"}
    rows = [
        {"puid": body["puid"], "case_id": case_id, "place": place, "body": body, **common}
        for place, ((case_id, _), body) in enumerate(zip(batch, bodies, strict=True))
    ]
    details = {"statements": len(rows), "body_sha": sha(bodies)}
    content = json.dumps({"statements": bodies}, indent=1, ensure_ascii=False) + "\n"
    try:
        async with store.transaction() as connection:
            await connection.execute(insert(statements), rows)
            await asyncio.to_thread(write_whole, path, content)
            made = LogEntry(kind="statements.made", subject=path.name, details=details)
            await append(connection, OPERATOR, made)
    except IntegrityError:
        raise BadInput(
            "statements: another process makes the same ones now; run it again when that has ended"
        ) from None


def statement_of(row: JSON, wanted: StatementRequest, policy: Policy | None) -> Statement:
    """Return the statement of a case; `policy` is its own, if the text of that is stored.

    Raises:
        BadInput: a field is missing or wrong; which, and where it may be told.
    """
    told = wanted.mapping.fields_for(row["category"])
    record = row["record"]
    content = _content_types(row)
    why = (model_explanation(row) if wanted.explanations else None) or category_explanation(
        row, policy
    )
    illegal = told.get("decision_ground") == "DECISION_GROUND_ILLEGAL_CONTENT"
    language = str(record.get("language") or "").partition("-")[0].upper()
    category = told.get("category") or _derived_category(record, illegal=illegal)
    keywords = (
        ("KEYWORD_HATE_SPEECH",) if record.get("hateful", True) and category == _SPEECH else None
    )
    # The register's id follows from the case's, which can't be derived from it.
    digest = hashlib.sha256(f"statement of reasons {row['id']}".encode()).hexdigest()
    derived: JSON = {
        "content_type": list(content) or None,
        "content_language": language if language in get_args(ContentLanguage) else None,
        "category": category,
        "category_specification": keywords,
        "decision_facts": decision_facts(row, list(content.values())),
        "automated_decision": automation_of(record),
        "application_date": "decided",
        "illegal_content_explanation" if illegal else "incompatible_content_explanation": why,
        "puid": f"tribunal-{digest[:40]}",
    }
    fields = {**{name: value for name, value in derived.items() if value is not None}, **told}
    turned = [each["decided"] for each in record.get("appeals") or () if each["result"] != "upheld"]
    decided = date.fromisoformat(turned[-1][:10]) if turned else _day_of(row["finished"])
    for name, of_case in (("content_date", _day_of(row["created"])), ("application_date", decided)):
        if name in fields:
            fields[name] = _resolve_day(row, name, str(fields[name]), of_case)
    try:
        return Statement.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        fault = (
            describe_validation_error(error)
            if first["loc"]
            else first["msg"].removeprefix("Value error, ")
        )
        if first["type"] == "missing":
            fault = f"{first['loc'][-1]}: is missing"
        raise BadInput(
            f"case {row['id']} ({row['category']}): {fault}; set it in the mapping "
            "(tribunal dsa statements --example-mapping prints one), or with --field"
        ) from error


def _derived_category(record: JSON, *, illegal: bool) -> str | None:
    """Return the register's category of a decision; None if only the operator can tell of which law it is."""
    if record.get("hateful", True):
        return _SPEECH
    return None if illegal else "STATEMENT_CATEGORY_OTHER_VIOLATION_TC"


def _content_types(row: JSON) -> dict[str, str]:
    """Return what the post consists of, each with its words; of one that was erased, what a model was shown of it."""
    shown = row["record"].get("shown") or ()
    post = row["post"] or {}
    kept = has_words(row)
    text = str(post.get("text") or "").strip() if kept else "text" in shown
    image = post.get("image") if kept else "image" in shown
    return {
        **({"CONTENT_TYPE_TEXT": "text"} if text else {}),
        **({"CONTENT_TYPE_IMAGE": "an image"} if image else {}),
    }


def _day_of(seconds: float) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def _resolve_day(row: JSON, name: str, source: str, of_case: date) -> date:
    if not source.startswith(FIELD):
        return of_case
    column = source.removeprefix(FIELD)
    try:
        return date.fromisoformat(str((row["fields"] or {}).get(column))[:10])
    except ValueError:
        raise BadInput(
            f"case {row['id']}: {name}: its column {column} holds no date such as 2026-11-22; put one there, or tell "
            "the date another way"
        ) from None


def decision_facts(row: JSON, content: list[str]) -> str:
    """Return the facts of a decision, without a word of the post: field `decision_facts`."""
    named = (row["record"].get("policy") or {}).get("name")
    policy = f"the policy {make_visible(named)}" if named else "the platform's rules"
    return (
        f"A post that consists of {' and '.join(content) or 'content'} was examined under {policy} by an automated "
        f"system of language models, which weighs what speaks for and against. {_describe_findings(row)}"
    )


def _describe_findings(row: JSON) -> str:
    """Return who found which category, one sentence each."""
    models, *people = list_findings({"category": row["category"], **row["record"]})
    if models.category is None:
        sentences = ["The system came to no verdict."]
    else:
        sentences = [f"The system found that it {_name_finding(models)}."]
    for each in people:
        who = (
            "A person reviewed the case and"
            if each.kind == "review"
            else "The decision was contested, and a person"
        )
        did = f"found that it {_name_finding(each)}"
        if each.result in ("accepted", "upheld"):
            did = f"confirmed the category {make_visible(str(each.category))}"
        sentences.append(f"{who} {did}.")
    if not people:
        sentences.append("No person reviewed the case before it was decided.")
    return " ".join(sentences)


def _name_finding(finding: Finding) -> str:
    is_what = (
        "falls under the category" if finding.hateful is False else "is hate speech of the category"
    )
    return f"{is_what} {make_visible(str(finding.category))}"


def category_explanation(row: JSON, policy: Policy | None) -> str:
    """Return why it breaks the rules, without a word of the post: fields `…_content_explanation`."""
    record = row["record"]
    category = row["category"]
    clauses = applied_clauses(policy, category, record.get("clauses") or ()) if policy else ()
    categories = policy.categories(record["scheme"]) if policy else ()
    meaning = next((each.meaning for each in categories if each.name == category), "")
    rule = " ".join(each.rule for each in clauses) or meaning
    ids = ", ".join(each.id for each in clauses)
    cited = f" ({count_noun(len(clauses), 'clause').partition(' ')[2]} {ids})" if clauses else ""
    said = f", which is: {one_line(rule).rstrip('.')}" if rule else ""
    models, *people = list_findings(record)
    who = "A person" if people else "An automated system"
    if people and models.category == category:
        who = "An automated system and a person"
    return f"{who} found that the content belongs to the category {make_visible(category)} of the rules{cited}{said}."[
        :_MOST
    ]


def model_explanation(row: JSON) -> str | None:
    """Return the model's own words, with quotations, names of accounts, addresses and numbers taken out.

    None where a person changed the outcome (they are the person's words then), or the post isn't there to compare with.
    """
    record = row["record"]
    post = row["post"]
    theirs = any(each["result"] != "upheld" for each in record.get("appeals") or [])
    if not post or theirs or (record.get("review") or {}).get("action") == "edit":
        return None
    said = one_line(make_visible(str(record["explanation"])))
    said = _PERSONAL.sub(_GONE, _QUOTED.sub(_GONE, said))
    for text in (post.get("text") or "", *(post.get("earlier") or ())):
        said = _remove_quotations(said, text)
    said = re.sub(rf"(?:{re.escape(_GONE)}\W*){{2,}}", f"{_GONE} ", said).strip()
    return said[:_MOST] or None


def _remove_quotations(said: str, post: str) -> str:
    """Return an explanation without the runs of words that it shares with the post; of a short post, without any."""
    words = [word.casefold() for word in _WORD.findall(post)]
    if not words:
        return said
    length = min(_RUN, len(words))
    runs = {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
    found = list(_WORD.finditer(said))
    told = [each[0].casefold() for each in found]
    out = {
        at + step
        for at in range(len(told))
        if tuple(told[at : at + length]) in runs
        for step in range(length)
    }
    for at in sorted(out, reverse=True):
        said = said[: found[at].start()] + _GONE + said[found[at].end() :]
    return re.sub(rf"{re.escape(_GONE)}(?:\W{{1,3}}{re.escape(_GONE)})+", _GONE, said)


# A statement of reasons in the form of the EU Transparency Database
# The rules are those of https://transparency.dsa.ec.europa.eu/page/api-documentation, in the form in force since 1 July
# 2025 (the templates of Implementing Regulation (EU) 2024/2835), and of the validation in the register's own source,
# github.com/digital-services-act/transparency-database. Dates lie before 2038-01-02, and from 2000-01-01 (content) or
# 2020-01-01 on.

MOST_IN_A_BATCH = 100


class Statement(StatementFields):
    """One statement of reasons, whole."""

    decision_ground: Ground
    content_type: tuple[ContentType, ...] = Field(min_length=1)
    category: Category
    territorial_scope: tuple[Country, ...] = Field(min_length=1)
    content_date: date = Field(ge=date(2000, 1, 1), le=LAST_DAY)
    application_date: date = Field(ge=date(2020, 1, 1), le=LAST_DAY)
    decision_facts: Facts
    source_type: Source
    automated_detection: YesNo
    automated_decision: Automated
    puid: Annotated[str, StringConstraints(pattern="^[a-zA-Z0-9_-]{1,500}$")]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        decisions = (
            "decision_visibility",
            "decision_monetary",
            "decision_provision",
            "decision_account",
        )
        if not any(getattr(self, name) for name in decisions):
            raise ValueError(
                f"{decisions[0]}: what was done is missing; give one of {', '.join(decisions)}"
            )
        wanted = {
            "decision_visibility_other": "DECISION_VISIBILITY_OTHER"
            in (self.decision_visibility or ()),
            "decision_monetary_other": self.decision_monetary == "DECISION_MONETARY_OTHER",
            "content_type_other": "CONTENT_TYPE_OTHER" in self.content_type,
        }
        illegal = self.decision_ground == "DECISION_GROUND_ILLEGAL_CONTENT"
        for name in ("illegal_content_legal_ground", "illegal_content_explanation"):
            wanted[name] = illegal
        for name in ("incompatible_content_ground", "incompatible_content_explanation"):
            wanted[name] = not illegal
        for name, needed in wanted.items():
            if needed and getattr(self, name) is None:
                raise ValueError(f"{name}: is missing, and what else is said wants it")
            if not needed and getattr(self, name) is not None:
                raise ValueError(f"{name}: doesn't belong to what else is said; leave it out")
        if illegal and self.incompatible_content_illegal is not None:
            raise ValueError(
                "incompatible_content_illegal: belongs to DECISION_GROUND_INCOMPATIBLE_CONTENT"
            )
        if self.source_identity is not None and self.source_type == "SOURCE_VOLUNTARY":
            raise ValueError("source_identity: a voluntary decision has no notifier; leave it out")
        other = "KEYWORD_OTHER" in (self.category_specification or ())
        if self.category_specification_other is not None and not other:
            raise ValueError("category_specification_other: belongs to KEYWORD_OTHER")
        for name in type(self).model_fields:
            end = getattr(self, name) if name.startswith("end_date_") else None
            if end is not None and end < self.application_date:
                raise ValueError(
                    f"{name}: {end}: is before the application date, {self.application_date}"
                )
        return self

    def to_wire(self) -> JSON:
        """Return the JSON object that the register takes."""
        return self.model_dump(mode="json", exclude_none=True)
