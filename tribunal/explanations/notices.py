"""What law and platform are told of a decision: the values of the register, and the operator's mapping to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    AnyUrl,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from tribunal.core.language import parse_language
from tribunal.core.text import parse_toml
from tribunal.errors import BadInput
from tribunal.explanations.deciders import find_case_decider
from tribunal.process.files import read_regular
from tribunal.prompts.policy import Policy
from tribunal.prompts.policy_parts import Clause
from tribunal.schema import JSON, Frozen
from tribunal.settings.validation import describe_validation_error

Visibility = Literal[
    "DECISION_VISIBILITY_CONTENT_REMOVED", "DECISION_VISIBILITY_CONTENT_DISABLED",
    "DECISION_VISIBILITY_CONTENT_DEMOTED", "DECISION_VISIBILITY_CONTENT_AGE_RESTRICTED",
    "DECISION_VISIBILITY_CONTENT_INTERACTION_RESTRICTED", "DECISION_VISIBILITY_CONTENT_LABELLED",
    "DECISION_VISIBILITY_OTHER",
]  # fmt: skip
Monetary = Literal[
    "DECISION_MONETARY_SUSPENSION", "DECISION_MONETARY_TERMINATION", "DECISION_MONETARY_OTHER"
]
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
Keyword = Literal[
    "KEYWORD_ANIMAL_HARM", "KEYWORD_UNLAWFUL_SALE_ANIMALS", "KEYWORD_HIDDEN_ADVERTISEMENT",
    "KEYWORD_INSUFFICIENT_INFORMATION_ON_TRADERS", "KEYWORD_MISLEADING_INFO_GOODS_SERVICES",
    "KEYWORD_MISLEADING_INFO_CONSUMER_RIGHTS", "KEYWORD_NONCOMPLIANCE_PRICING",
    "KEYWORD_CYBER_BULLYING_INTIMIDATION", "KEYWORD_CYBER_HARASSMENT", "KEYWORD_CYBER_INCITEMENT",
    "KEYWORD_CYBER_STALKING", "KEYWORD_NON_CONSENSUAL_IMAGE_SHARING", "KEYWORD_NON_CONSENSUAL_MATERIAL_DEEPFAKE",
    "KEYWORD_BULLYING_AGAINST_GIRLS", "KEYWORD_CYBER_HARASSMENT_AGAINST_WOMEN",
    "KEYWORD_CYBER_STALKING_AGAINST_WOMEN", "KEYWORD_FEMALE_GENDERED_DISINFORMATION",
    "KEYWORD_INCITEMENT_AGAINST_WOMEN", "KEYWORD_NON_CONSENSUAL_IMAGE_SHARING_AGAINST_WOMEN",
    "KEYWORD_NON_CONSENSUAL_MATERIAL_DEEPFAKE_AGAINST_WOMEN", "KEYWORD_BIOMETRIC_DATA_BREACH",
    "KEYWORD_DATA_FALSIFICATION", "KEYWORD_MISSING_PROCESSING_GROUND", "KEYWORD_RIGHT_TO_BE_FORGOTTEN",
    "KEYWORD_DEFAMATION", "KEYWORD_DISCRIMINATION", "KEYWORD_HATE_SPEECH", "KEYWORD_COPYRIGHT_INFRINGEMENT",
    "KEYWORD_DESIGN_INFRINGEMENT", "KEYWORD_GEOGRAPHIC_INDICATIONS_INFRINGEMENT", "KEYWORD_PATENT_INFRINGEMENT",
    "KEYWORD_TRADE_SECRET_INFRINGEMENT", "KEYWORD_TRADEMARK_INFRINGEMENT", "KEYWORD_MISINFORMATION_DISINFORMATION",
    "KEYWORD_VIOLATION_EU_LAW", "KEYWORD_VIOLATION_NATIONAL_LAW", "KEYWORD_ADULT_SEXUAL_MATERIAL",
    "KEYWORD_AGE_SPECIFIC_RESTRICTIONS", "KEYWORD_GEOGRAPHICAL_REQUIREMENTS",
    "KEYWORD_GOODS_SERVICES_NOT_PERMITTED", "KEYWORD_LANGUAGE_REQUIREMENTS", "KEYWORD_NUDITY",
    "KEYWORD_AGE_SPECIFIC_RESTRICTIONS_MINORS", "KEYWORD_CHILD_SEXUAL_ABUSE_MATERIAL",
    "KEYWORD_CHILD_SEXUAL_ABUSE_MATERIAL_DEEPFAKE", "KEYWORD_GROOMING_SEXUAL_ENTICEMENT_MINORS",
    "KEYWORD_UNSAFE_CHALLENGES", "KEYWORD_ILLEGAL_ORGANIZATIONS", "KEYWORD_RISK_ENVIRONMENTAL_DAMAGE",
    "KEYWORD_RISK_PUBLIC_HEALTH", "KEYWORD_TERRORIST_CONTENT", "KEYWORD_IMPERSONATION_ACCOUNT_HIJACKING",
    "KEYWORD_INAUTHENTIC_ACCOUNTS", "KEYWORD_INAUTHENTIC_LISTINGS", "KEYWORD_INAUTHENTIC_USER_REVIEWS",
    "KEYWORD_PHISHING", "KEYWORD_PYRAMID_SCHEMES", "KEYWORD_CONTENT_PROMOTING_EATING_DISORDERS",
    "KEYWORD_SELF_MUTILATION", "KEYWORD_SUICIDE", "KEYWORD_PROHIBITED_PRODUCTS", "KEYWORD_UNSAFE_PRODUCTS",
    "KEYWORD_COORDINATED_HARM", "KEYWORD_INCITEMENT_VIOLENCE_HATRED", "KEYWORD_HUMAN_EXPLOITATION",
    "KEYWORD_HUMAN_TRAFFICKING", "KEYWORD_TRAFFICKING_WOMEN_GIRLS", "KEYWORD_OTHER",
]  # fmt: skip
Source = Literal[
    "SOURCE_ARTICLE_16",
    "SOURCE_TRUSTED_FLAGGER",
    "SOURCE_TYPE_OTHER_NOTIFICATION",
    "SOURCE_VOLUNTARY",
]
Automated = Literal[
    "AUTOMATED_DECISION_FULLY", "AUTOMATED_DECISION_PARTIALLY", "AUTOMATED_DECISION_NOT_AUTOMATED"
]
YesNo = Literal["Yes", "No"]
Country = Literal[
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT",
    "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
]  # fmt: skip
ContentLanguage = Literal[
    "AB", "AA", "AF", "AK", "SQ", "AM", "AR", "AN", "HY", "AS", "AV", "AE", "AY", "AZ", "BM", "BA", "EU", "BE",
    "BN", "BH", "BI", "BS", "BR", "BG", "MY", "CA", "KM", "CH", "CE", "NY", "ZH", "CU", "CV", "KW", "CO", "CR",
    "HR", "CS", "DA", "DV", "NL", "DZ", "EN", "EO", "ET", "EE", "FO", "FJ", "FI", "FR", "FF", "GD", "GL", "LG",
    "KA", "DE", "KI", "EL", "KL", "GN", "GU", "HT", "HA", "HE", "HZ", "HI", "HO", "HU", "IS", "IO", "IG", "ID",
    "IA", "IE", "IU", "IK", "GA", "IT", "JA", "JV", "KN", "KR", "KS", "KK", "RW", "KV", "KG", "KO", "KJ", "KU",
    "KY", "LO", "LA", "LV", "LB", "LI", "LN", "LT", "LU", "MK", "MG", "MS", "ML", "MT", "GV", "MI", "MR", "MH",
    "RO", "MN", "NA", "NV", "ND", "NG", "NE", "SE", "NO", "NB", "NN", "II", "OC", "OJ", "OR", "OM", "OS", "PI",
    "PA", "PS", "FA", "PL", "PT", "QU", "RM", "RN", "RU", "SM", "SG", "SA", "SC", "SR", "SN", "SD", "SI", "SK",
    "SL", "SO", "ST", "NR", "ES", "SU", "SW", "SS", "SV", "TL", "TY", "TG", "TA", "TT", "TE", "TH", "BO", "TI",
    "TO", "TS", "TN", "TR", "TK", "TW", "UG", "UK", "UR", "UZ", "VE", "VI", "VO", "WA", "CY", "FY", "WO", "XH",
    "YI", "YO", "ZA", "ZU",
]  # fmt: skip
_OUTSIDE_THE_UNION = ("IS", "LI", "NO")
SCOPES = {
    "EU": tuple(each for each in get_args(Country) if each not in _OUTSIDE_THE_UNION),
    "EEA": get_args(Country),
}


def automation_of(record: JSON) -> Automated:
    """Return the part that automated means had in a decision, as the register calls it.

    The models always decide first. A person who accepts or changes their verdict decides with their help.
    """
    by_person = find_case_decider(record).decided_by in ("person", "appeal")
    return "AUTOMATED_DECISION_PARTIALLY" if by_person else "AUTOMATED_DECISION_FULLY"


def applied_clauses(policy: Policy, category: str, cited: Sequence[str]) -> tuple[Clause, ...]:
    """Return the clauses that a verdict cites by id; where it cites none, its category's, if it has just one."""
    if cited:
        return tuple(each for each in policy.clauses if each.id in cited)
    of_category = tuple(each for each in policy.clauses if each.category == category)
    return of_category if len(of_category) == 1 else ()


def has_stated_reason(record: JSON) -> bool:
    """Return whether a decision names any reason: words of explanation, or a cue. A check of reasons may empty them."""
    return bool(str(record.get("explanation") or "").strip() or record.get("cues"))


def add_months(day: date, months: int) -> date:
    """Return the same day some months later; the last of a month that is shorter."""
    year, month = divmod(day.month - 1 + months, 12)
    first_after = date(day.year + year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    last = (first_after - date.resolution).day
    return date(day.year + year, month + 1, min(day.day, last))


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

    complaint: Short | None = Field(
        default=None, description="where complaints are taken: an address of web or mail"
    )
    settlement: Short | None = Field(
        default=None, description="the out-of-court dispute settlement body's address"
    )
    months: int = Field(default=LEAST_MONTHS, ge=LEAST_MONTHS, le=120)


class DecisionMapping(Frozen):
    """The file: `[all]`, `[category.NAME]` for what differs for a category of the policy, and `[redress]`."""

    all: MappedFields = MappedFields()
    category: dict[str, MappedFields] = Field(default_factory=dict)
    redress: Redress = Redress()

    def fields_for(self, category: str) -> JSON:
        """Return what is said of a decision of this category, by field."""
        tables = self._tables(category)
        return {
            name: value
            for table in tables
            for name, value in table
            if value is not None and name != _TRANSLATIONS
        }

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
        return DecisionMapping.model_validate(
            {**held, "all": {**held.get("all", {}), **(fields or {})}}
        )
    except ValidationError as error:
        fault = describe_validation_error(error)
        raise BadInput(
            f"mapping: {path or 'options'}: {fault}; compare what tribunal dsa statements --example-mapping prints"
        ) from error
