"""What `comments:analyze` takes and gives, by the Perspective API's own names."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tribunal.service.routes.shapes import MOST_TEXT

Attribute = Literal["IDENTITY_ATTACK", "HATE_SPEECH"]
JUDGED: tuple[Attribute, ...] = ("IDENTITY_ATTACK", "HATE_SPEECH")


class _Message(BaseModel):
    """As Google reads JSON: a name is written in either way, and one that isn't known is refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class TextEntry(_Message):
    """A text."""

    text: str = Field(default="", max_length=MOST_TEXT, description="its words", examples=["Good morning!"])
    type: Literal["PLAIN_TEXT", "TEXT_TYPE_UNSPECIFIED", "HTML"] = Field(
        default="PLAIN_TEXT", description="plain text; HTML is refused, as Google does", examples=["PLAIN_TEXT"]
    )


class ArticleAndParentComment(_Message):
    """What a comment stands under."""

    article: TextEntry | None = Field(default=None, description="the article")
    parent_comment: TextEntry | None = Field(default=None, description="the comment that it answers")


class Context(_Message):
    """What was said before; only one of the two fields."""

    entries: list[TextEntry] | None = Field(default=None, description="texts, the oldest first")
    article_and_parent_comment: ArticleAndParentComment | None = Field(
        default=None, description="an article, and the comment that is answered"
    )


class AttributeParameters(_Message):
    """How a score is wanted."""

    score_type: Literal["PROBABILITY", "SCORE_TYPE_UNSPECIFIED", "STD_DEV_SCORE", "PERCENTILE", "RAW"] = Field(
        default="PROBABILITY", description="PROBABILITY is the only one given", examples=["PROBABILITY"]
    )
    score_threshold: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="leave the attribute out of the answer below this score",
        examples=[0.5],
    )


class AnalyzeCommentRequest(_Message):
    """A comment to analyse."""

    comment: TextEntry = Field(description="what is judged")
    requested_attributes: dict[str, AttributeParameters] = Field(
        default_factory=dict,
        description="which scores: IDENTITY_ATTACK, HATE_SPEECH or both; any other is refused",
        examples=[{"IDENTITY_ATTACK": {}}],
    )
    context: Context | None = Field(default=None, description="what was said before; it is read, and not judged")
    span_annotations: bool = Field(
        default=False, description="true: a score for each passage that a cue quotes, where one does"
    )
    languages: list[str] = Field(
        default_factory=list,
        max_length=20,
        description="of the comment, as tags; only a single one is heeded. Every language is judged",
        examples=[["en"]],
    )
    do_not_store: bool = Field(default=False, description="true: neither comment nor record is stored")
    client_token: str | None = Field(default=None, max_length=1000, description="given back", examples=["t-1"])
    session_id: str | None = Field(default=None, max_length=1000, description="taken and not used", examples=["s-1"])
    community_id: str | None = Field(
        default=None, max_length=1000, description="taken and not used", examples=["forum-1"]
    )

    def said_before(self) -> list[str]:
        """The texts of the context, the oldest first."""
        if self.context is None:
            return []
        entries = self.context.entries or []
        if above := self.context.article_and_parent_comment:
            entries = [each for each in (above.article, above.parent_comment) if each is not None]
        return [each.text for each in entries if each.text.strip()]


class Score(_Message):
    """A score."""

    value: float = Field(ge=0, le=1, description="the verdict's confidence, or its opposite", examples=[0.91])
    type: Literal["PROBABILITY"] = Field(default="PROBABILITY", description="the type of every score")


class SpanScore(_Message):
    """A score of a passage."""

    begin: int = Field(ge=0, description="where it begins, in UTF-16 code units", examples=[0])
    end: int = Field(ge=0, description="where it ends, exclusive", examples=[13])
    score: Score = Field(description="the verdict's: a passage has none of its own")


class AttributeScores(_Message):
    """The scores of an attribute."""

    summary_score: Score = Field(description="of the whole comment")
    span_scores: list[SpanScore] = Field(description="of its passages")


class AnalyzeCommentResponse(_Message):
    """What came of it."""

    attribute_scores: dict[str, AttributeScores] = Field(
        default_factory=dict, description="by attribute; one below its scoreThreshold is left out"
    )
    languages: list[str] = Field(default_factory=list, description="the language it was judged in", examples=[["en"]])
    detected_languages: list[str] | None = Field(
        default=None, description="the language that was detected, where none was given", examples=[["en"]]
    )
    client_token: str | None = Field(default=None, description="the request's", examples=["t-1"])
