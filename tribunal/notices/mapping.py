"""The operator's file of measures: what the platform does with a post by category, on which ground, and the redress.

Statements of reasons and letters are both made from it, so that they say the same. Its fields are those of the EU
Transparency Database. The rules are those of https://transparency.dsa.ec.europa.eu/page/api-documentation and of the
validation in the register's own source. Dates lie before 2038-01-02.
"""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AnyUrl, Field, StringConstraints, ValidationError, field_validator

from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.language import parse_language
from tribunal.notices.register_values import (
    SCOPES,
    Account,
    Automated,
    Category,
    ContentLanguage,
    ContentType,
    Country,
    Ground,
    Keyword,
    Monetary,
    Provision,
    Source,
    Visibility,
    YesNo,
)
from tribunal.schema import JSON, Frozen
from tribunal.text import parse_toml
from tribunal.validation import describe_validation_error

LAST_DAY = date(2038, 1, 1)
FIELD = "field:"
LEAST_MONTHS = 6  # Digital Services Act, article 20(1)

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
    content_language: ContentLanguage | None = None
    decision_facts: Facts | None = None
    source_type: Source | None = None
    source_identity: Short | None = None
    automated_detection: YesNo | None = None
    automated_decision: Automated | None = None
    end_date_visibility_restriction: date | None = Field(default=None, le=LAST_DAY)
    end_date_monetary_restriction: date | None = Field(default=None, le=LAST_DAY)
    end_date_service_restriction: date | None = Field(default=None, le=LAST_DAY)
    end_date_account_restriction: date | None = Field(default=None, le=LAST_DAY)

    @field_validator("decision_ground_reference_url")
    @classmethod
    def _short_address(cls, value: AnyUrl | None) -> AnyUrl | None:
        if value is not None and (value.scheme not in ("http", "https") or len(str(value)) > 500):
            raise ValueError("an http address of at most 500 characters is wanted")
        return value


def _parse_tag(given: str) -> str:
    tag = parse_language(given)
    if tag is None:
        raise ValueError(f"{given!r} is no language; give a tag such as en, ko or pt-BR")
    return tag


Tag = Annotated[str, AfterValidator(_parse_tag)]
# The fields in the operator's own words, which letters quote in the author's language.
TranslatedField = Literal[
    "illegal_content_legal_ground", "incompatible_content_ground", "decision_visibility_other",
    "decision_monetary_other",
]  # fmt: skip


class MappedFields(StatementFields):
    """One table of the file: fields of a statement, and where its dates are from.

    `content_date` is when the post was published: `received`, the day on which it came here; or `field:NAME`, the
    column of a batch. `application_date` is when the decision applied from: `decided`, or `field:NAME`. `translations`
    hold the fields in the operator's own words once per language, for letters.
    """

    content_date: str | None = Field(default=None, pattern=f"^(received|{FIELD}.+)$")
    application_date: str | None = Field(default=None, pattern=f"^(decided|{FIELD}.+)$")

    translations: dict[Tag, dict[TranslatedField, Short]] = Field(default_factory=dict)

    @field_validator("territorial_scope", mode="before")
    @classmethod
    def _expand_scope(cls, value: Any) -> Any:
        return SCOPES.get(value, value) if isinstance(value, str) else value


_TRANSLATIONS = "translations"


class Redress(Frozen):
    """Hold what the author can do against a decision: where, and for how many months after they were told of it."""

    complaint: Short | None = None
    """where complaints are taken: an address of web or mail"""
    settlement: Short | None = None
    """the out-of-court dispute settlement body's address"""
    months: int = Field(default=LEAST_MONTHS, ge=LEAST_MONTHS, le=120)


class DecisionMapping(Frozen):
    """The file: `[all]`, `[category.NAME]` for what differs for a category of the policy, and `[redress]`."""

    all: MappedFields = MappedFields()
    category: dict[str, MappedFields] = Field(default_factory=dict)
    redress: Redress = Redress()

    def fields_for(self, category: str) -> JSON:
        """Return what is said of a decision of this category, by field."""
        tables = self._tables(category)
        return {name: value for table in tables for name, value in table if value is not None and name != _TRANSLATIONS}

    def words_for(self, category: str, tag: str) -> JSON:
        """Return the fields in the operator's own words, by field, as far as they are translated into a language."""
        tags = (tag.partition("-")[0], tag)
        return {
            name: words
            for table in self._tables(category)
            for each in dict.fromkeys(tags)
            for name, words in table.translations.get(each, {}).items()
        }

    def _tables(self, category: str) -> tuple[MappedFields, MappedFields]:
        return self.all, self.category.get(category, MappedFields())


def example_mapping() -> str:
    """Return a mapping to begin with."""
    return files(__package__).joinpath("mapping.toml").read_text("utf-8")


def read_mapping(path: Path | None, fields: JSON | None = None) -> DecisionMapping:
    """Return the mapping in a file, if there is one; the fields of options beat its table for all.

    Raises:
        BadInput: the file can't be read, or a field of it or an option is wrong.
    """
    try:
        held = parse_toml(read_regular(path)) if path is not None else {}
    except OSError as error:
        raise BadInput(
            f"mapping: {path}: {error.strerror}; tribunal dsa statements --example-mapping prints one to begin with"
        ) from error
    except ValueError as error:
        raise BadInput(f"mapping: {path}: is no TOML file: {error}") from error
    if not isinstance(held.get("all", {}), dict):
        raise BadInput(f"mapping: {path}: all: is no table; write [all]")
    try:
        return DecisionMapping.model_validate({**held, "all": {**held.get("all", {}), **(fields or {})}})
    except ValidationError as error:
        fault = describe_validation_error(error)
        raise BadInput(
            f"mapping: {path or 'options'}: {fault}; compare what tribunal dsa statements --example-mapping prints"
        ) from error
