"""A statement of reasons in the form of the EU Transparency Database, and the file that says what a platform did.

The rules are those of https://transparency.dsa.ec.europa.eu/page/api-documentation, in the form in force since 1 July
2025 (the templates of Implementing Regulation (EU) 2024/2835), and of the validation in the register's own source,
github.com/digital-services-act/transparency-database. Dates before 2038-01-02, from 2000-01-01 (content) or 2020-01-01.
"""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AnyUrl, Field, StringConstraints, ValidationError, field_validator, model_validator

from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.schema import JSON, Frozen
from tribunal.text import parse_toml

MOST_IN_A_BATCH = 100
Visibility = Literal[
    "DECISION_VISIBILITY_CONTENT_REMOVED", "DECISION_VISIBILITY_CONTENT_DISABLED",
    "DECISION_VISIBILITY_CONTENT_DEMOTED", "DECISION_VISIBILITY_CONTENT_AGE_RESTRICTED",
    "DECISION_VISIBILITY_CONTENT_INTERACTION_RESTRICTED", "DECISION_VISIBILITY_CONTENT_LABELLED",
    "DECISION_VISIBILITY_OTHER",
]  # fmt: skip
Monetary = Literal["DECISION_MONETARY_SUSPENSION", "DECISION_MONETARY_TERMINATION", "DECISION_MONETARY_OTHER"]
Provision = Literal[
    "DECISION_PROVISION_PARTIAL_SUSPENSION", "DECISION_PROVISION_TOTAL_SUSPENSION",
    "DECISION_PROVISION_PARTIAL_TERMINATION", "DECISION_PROVISION_TOTAL_TERMINATION",
]  # fmt: skip
Account = Literal["DECISION_ACCOUNT_SUSPENDED", "DECISION_ACCOUNT_TERMINATED"]
Ground = Literal["DECISION_GROUND_ILLEGAL_CONTENT", "DECISION_GROUND_INCOMPATIBLE_CONTENT"]
ContentType = Literal[
    "CONTENT_TYPE_APP", "CONTENT_TYPE_AUDIO", "CONTENT_TYPE_IMAGE", "CONTENT_TYPE_PRODUCT",
    "CONTENT_TYPE_SYNTHETIC_MEDIA", "CONTENT_TYPE_TEXT", "CONTENT_TYPE_VIDEO", "CONTENT_TYPE_OTHER",
]  # fmt: skip
Category = Literal[
    "STATEMENT_CATEGORY_ANIMAL_WELFARE", "STATEMENT_CATEGORY_CONSUMER_INFORMATION",
    "STATEMENT_CATEGORY_CYBER_VIOLENCE", "STATEMENT_CATEGORY_CYBER_VIOLENCE_AGAINST_WOMEN",
    "STATEMENT_CATEGORY_DATA_PROTECTION_AND_PRIVACY_VIOLATIONS", "STATEMENT_CATEGORY_ILLEGAL_OR_HARMFUL_SPEECH",
    "STATEMENT_CATEGORY_INTELLECTUAL_PROPERTY_INFRINGEMENTS",
    "STATEMENT_CATEGORY_NEGATIVE_EFFECTS_ON_CIVIC_DISCOURSE_OR_ELECTIONS", "STATEMENT_CATEGORY_NOT_SPECIFIED_NOTICE",
    "STATEMENT_CATEGORY_OTHER_VIOLATION_TC", "STATEMENT_CATEGORY_PROTECTION_OF_MINORS",
    "STATEMENT_CATEGORY_RISK_FOR_PUBLIC_SECURITY", "STATEMENT_CATEGORY_SCAMS_AND_FRAUD",
    "STATEMENT_CATEGORY_SELF_HARM", "STATEMENT_CATEGORY_UNSAFE_AND_PROHIBITED_PRODUCTS", "STATEMENT_CATEGORY_VIOLENCE",
]  # fmt: skip
# Of the register's keywords those that a decision on hate speech may be of; the others belong to other categories.
Keyword = Literal[
    "KEYWORD_HATE_SPEECH", "KEYWORD_DISCRIMINATION", "KEYWORD_DEFAMATION", "KEYWORD_CYBER_INCITEMENT",
    "KEYWORD_CYBER_HARASSMENT", "KEYWORD_CYBER_HARASSMENT_AGAINST_WOMEN", "KEYWORD_CYBER_BULLYING_INTIMIDATION",
    "KEYWORD_INCITEMENT_AGAINST_WOMEN", "KEYWORD_INCITEMENT_VIOLENCE_HATRED", "KEYWORD_COORDINATED_HARM",
    "KEYWORD_ILLEGAL_ORGANIZATIONS", "KEYWORD_TERRORIST_CONTENT", "KEYWORD_OTHER",
]  # fmt: skip
Source = Literal["SOURCE_ARTICLE_16", "SOURCE_TRUSTED_FLAGGER", "SOURCE_TYPE_OTHER_NOTIFICATION", "SOURCE_VOLUNTARY"]
Automated = Literal["AUTOMATED_DECISION_FULLY", "AUTOMATED_DECISION_PARTIALLY", "AUTOMATED_DECISION_NOT_AUTOMATED"]
YesNo = Literal["Yes", "No"]
Country = Literal[
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT",
    "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
]  # fmt: skip
_OUTSIDE_THE_UNION = ("IS", "LI", "NO")
_SCOPES = {
    "EU": tuple(each for each in get_args(Country) if each not in _OUTSIDE_THE_UNION),
    "EEA": get_args(Country),
}
_LAST = date(2038, 1, 1)
FIELD = "field:"

Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Long = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Facts = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=5000)]


class StatementFields(Frozen):
    """The fields in which a platform describes its decisions, each as the register calls it. None is not told."""

    decision_visibility: tuple[Visibility, ...] | None = Field(default=None, min_length=1)
    decision_visibility_other: Short | None = None
    decision_monetary: Monetary | None = None
    decision_monetary_other: Short | None = None
    decision_provision: Provision | None = None
    decision_account: Account | None = None
    account_type: Literal["ACCOUNT_TYPE_BUSINESS", "ACCOUNT_TYPE_PRIVATE"] | None = None
    decision_ground: Ground | None = None
    decision_ground_reference_url: AnyUrl | None = None
    illegal_content_legal_ground: Short | None = None
    illegal_content_explanation: Long | None = None
    incompatible_content_ground: Short | None = None
    incompatible_content_explanation: Long | None = None
    incompatible_content_illegal: YesNo | None = None
    content_type: tuple[ContentType, ...] | None = Field(default=None, min_length=1)
    content_type_other: Short | None = None
    category: Category | None = None
    category_addition: tuple[Category, ...] | None = None
    category_specification: tuple[Keyword, ...] | None = None
    category_specification_other: Short | None = None
    territorial_scope: tuple[Country, ...] | None = Field(default=None, min_length=1)
    content_language: Annotated[str, StringConstraints(pattern="^[A-Z]{2}$")] | None = None
    decision_facts: Facts | None = None
    source_type: Source | None = None
    source_identity: Short | None = None
    automated_detection: YesNo | None = None
    automated_decision: Automated | None = None
    end_date_visibility_restriction: date | None = Field(default=None, le=_LAST)
    end_date_monetary_restriction: date | None = Field(default=None, le=_LAST)
    end_date_service_restriction: date | None = Field(default=None, le=_LAST)
    end_date_account_restriction: date | None = Field(default=None, le=_LAST)

    @field_validator("decision_ground_reference_url")
    @classmethod
    def _short_address(cls, value: AnyUrl | None) -> AnyUrl | None:
        if value is not None and (value.scheme not in ("http", "https") or len(str(value)) > 500):
            raise ValueError("an http address of at most 500 characters is wanted")
        return value


class Statement(StatementFields):
    """One statement of reasons, whole."""

    decision_ground: Ground
    content_type: tuple[ContentType, ...] = Field(min_length=1)
    category: Category
    territorial_scope: tuple[Country, ...] = Field(min_length=1)
    content_date: date = Field(ge=date(2000, 1, 1), le=_LAST)
    application_date: date = Field(ge=date(2020, 1, 1), le=_LAST)
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


class MappedFields(StatementFields):
    """One table of the file: fields of a statement, and where its dates are from.

    `content_date` is when the post was published: `received`, the day on which it came here; or `field:NAME`, the
    column of a batch. `application_date` is when the decision applied from: `decided`, or `field:NAME`.
    """

    content_date: str | None = Field(default=None, pattern=f"^(received|{FIELD}.+)$")
    application_date: str | None = Field(default=None, pattern=f"^(decided|{FIELD}.+)$")

    @field_validator("territorial_scope", mode="before")
    @classmethod
    def _expand_scope(cls, value: Any) -> Any:
        return _SCOPES.get(value, value) if isinstance(value, str) else value


class DecisionMapping(Frozen):
    """The file: `[all]`, and `[category.NAME]` for what differs for a category of the policy."""

    all: MappedFields = MappedFields()
    category: dict[str, MappedFields] = Field(default_factory=dict)

    def fields_for(self, category: str) -> JSON:
        """Return what is said of a decision of this category, by field."""
        tables = (self.all, self.category.get(category, MappedFields()))
        return {name: value for table in tables for name, value in table if value is not None}


def example_mapping() -> str:
    """Return a mapping to begin with."""
    return files(__package__).joinpath("mapping.toml").read_text("utf-8")


def read_mapping(path: Path | None, fields: JSON) -> DecisionMapping:
    """Return the mapping in a file, if there is one; the fields of options beat its table for all.

    Raises:
        BadInput: the file can't be read, or a field of it or an option is wrong.
    """
    try:
        held = parse_toml(read_regular(path)) if path is not None else {}
    except OSError as error:
        raise BadInput(f"mapping: {path}: {error.strerror}; tribunal dsa mapping prints one to begin with") from error
    except ValueError as error:
        raise BadInput(f"mapping: {path}: is no TOML file: {error}") from error
    if not isinstance(held.get("all", {}), dict):
        raise BadInput(f"mapping: {path}: all: is no table; write [all]")
    try:
        return DecisionMapping.model_validate({**held, "all": {**held.get("all", {}), **fields}})
    except ValidationError as error:
        raise BadInput(f"mapping: {path or 'options'}: {describe_validation_error(error)}") from error
