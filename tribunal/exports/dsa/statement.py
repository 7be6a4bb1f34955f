"""A statement of reasons in the form of the EU Transparency Database.

The rules are those of https://transparency.dsa.ec.europa.eu/page/api-documentation, in the form in force since 1 July
2025 (the templates of Implementing Regulation (EU) 2024/2835), and of the validation in the register's own source,
github.com/digital-services-act/transparency-database. Dates before 2038-01-02, from 2000-01-01 (content) or 2020-01-01.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from tribunal.notices.mapping import LAST_DAY, Facts, StatementFields
from tribunal.notices.register_values import (
    Automated,
    Category,
    ContentType,
    Country,
    Ground,
    Source,
    YesNo,
)
from tribunal.schema import JSON

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
        decisions = ("decision_visibility", "decision_monetary", "decision_provision", "decision_account")
        if not any(getattr(self, name) for name in decisions):
            raise ValueError(f"{decisions[0]}: what was done is missing; give one of {', '.join(decisions)}")
        wanted = {
            "decision_visibility_other": "DECISION_VISIBILITY_OTHER" in (self.decision_visibility or ()),
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
            raise ValueError("incompatible_content_illegal: belongs to DECISION_GROUND_INCOMPATIBLE_CONTENT")
        if self.source_identity is not None and self.source_type == "SOURCE_VOLUNTARY":
            raise ValueError("source_identity: a voluntary decision has no notifier; leave it out")
        other = "KEYWORD_OTHER" in (self.category_specification or ())
        if self.category_specification_other is not None and not other:
            raise ValueError("category_specification_other: belongs to KEYWORD_OTHER")
        for name in type(self).model_fields:
            end = getattr(self, name) if name.startswith("end_date_") else None
            if end is not None and end < self.application_date:
                raise ValueError(f"{name}: {end}: lies before the application date, {self.application_date}")
        return self

    def to_wire(self) -> JSON:
        """Return the JSON object that the register takes."""
        return self.model_dump(mode="json", exclude_none=True)
