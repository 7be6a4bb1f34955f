"""`POST /v1alpha1/comments:analyze`, in place of the Perspective API's, by that API's own names."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from tribunal.core.text import one_line, parse_json
from tribunal.errors import Problem
from tribunal.explanations.quotations import merge_spans, quoted_spans
from tribunal.schema import JSON, Record, standing_cues
from tribunal.service.dropins.verdicts import (
    GoogleError,
    PerspectiveBadRequest,
    dropin_responses,
    score_of,
    score_posts,
)
from tribunal.service.replica.keys import Caller
from tribunal.service.routes.access import Access, CurrentReplica, KeyFirst
from tribunal.service.routes.judge import MAX_TEXT
from tribunal.service.routes.parameters import RequestBody
from tribunal.settings.context import context_from

PerspectiveAttribute = Literal["IDENTITY_ATTACK", "HATE_SPEECH"]
JUDGED: tuple[PerspectiveAttribute, ...] = ("IDENTITY_ATTACK", "HATE_SPEECH")
VERSION = "v1alpha1"


class _GoogleModel(RequestBody):
    """As Google reads JSON: a name is written in either way, and one that isn't known is refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class TextEntry(_GoogleModel):
    """A text."""

    text: str = Field(default="", max_length=MAX_TEXT, examples=["Good morning!"])
    """its words"""
    type: Literal["PLAIN_TEXT", "TEXT_TYPE_UNSPECIFIED", "HTML"] = "PLAIN_TEXT"
    """plain text; HTML is refused, as Google does"""


class ArticleAndParentComment(_GoogleModel):
    """What a comment stands under."""

    article: TextEntry | None = None
    """the article"""
    parent_comment: TextEntry | None = None
    """the comment that it answers"""


class CommentContext(_GoogleModel):
    """What was said before; only one of the two fields."""

    entries: list[TextEntry] | None = None
    """texts, the oldest first"""
    article_and_parent_comment: ArticleAndParentComment | None = None
    """an article, and the comment that is answered"""


class AttributeParameters(_GoogleModel):
    """How a score is wanted."""

    score_type: Literal[
        "PROBABILITY", "SCORE_TYPE_UNSPECIFIED", "STD_DEV_SCORE", "PERCENTILE", "RAW"
    ] = "PROBABILITY"
    """PROBABILITY is the only one given"""
    score_threshold: Annotated[float, Field(examples=[0.5])] | None = Field(
        default=None, allow_inf_nan=False
    )
    """leave the attribute out of the answer below this score"""


UnusedText = Annotated[
    str | None, Field(max_length=1000, description="taken and not used", examples=["s-1"])
]


class AnalyzeCommentRequest(_GoogleModel):
    """A comment to analyse."""

    comment: TextEntry
    """what is judged"""
    requested_attributes: dict[str, AttributeParameters] = Field(
        default_factory=dict, examples=[{"IDENTITY_ATTACK": {}}]
    )
    """which scores: IDENTITY_ATTACK, HATE_SPEECH or both; for others see dropUnsupportedAttributes"""
    context: CommentContext | None = None
    """what was said before; it is read, and not judged"""
    span_annotations: bool = False
    """true: a score for each passage that a cue quotes, if any"""
    languages: list[str] = Field(default_factory=list, max_length=20, examples=[["en"]])
    """of the comment, as tags; only a single one is heeded. Every language is judged"""
    drop_unsupported_attributes: bool = Field(
        default=False,
        description="true: other attributes are left out of the answer, if one of the two is asked for, and named in "
        "the header Tribunal-Dropped-Attributes; else they are refused, unless the operator says otherwise",
    )
    do_not_store: bool = False
    """true: neither comment nor record is stored"""
    client_token: str | None = Field(default=None, max_length=1000, examples=["t-1"])
    """given back"""
    session_id: UnusedText = None
    community_id: UnusedText = None

    def drop_other_attributes(self) -> list[str]:
        """Take out the attributes that can't be had, and return them; none where no other is asked for."""
        others = [name for name in self.requested_attributes if name not in JUDGED]
        if len(others) == len(self.requested_attributes):
            return []
        for name in others:
            del self.requested_attributes[name]
        return others

    def context_texts(self) -> list[str]:
        """Return the texts of the context, the oldest first."""
        if self.context is None:
            return []
        above = self.context.article_and_parent_comment
        entries = [above.article, above.parent_comment] if above else self.context.entries or []
        return [each.text for each in entries if each is not None and each.text.strip()]


class AttributeScore(_GoogleModel):
    """A score."""

    value: float = Field(ge=0, le=1, examples=[0.91])
    """the probability that it is hate speech"""
    type: Literal["PROBABILITY"] = "PROBABILITY"
    """the type of every score"""


class SpanScore(_GoogleModel):
    """A score of a passage."""

    begin: int = Field(ge=0, examples=[0])
    """where it begins, in UTF-16 code units"""
    end: int = Field(ge=0, examples=[13])
    """where it ends, exclusive"""
    score: AttributeScore
    """the verdict's: a passage has none of its own"""


class AttributeScores(_GoogleModel):
    """The scores of an attribute."""

    summary_score: AttributeScore
    """of the whole comment"""
    span_scores: list[SpanScore]
    """of its passages"""


class AnalyzeCommentResponse(_GoogleModel):
    """What came of it."""

    attribute_scores: dict[str, AttributeScores] = Field(default_factory=dict)
    """by attribute; one below its scoreThreshold is left out"""
    languages: list[str] = Field(default_factory=list, examples=[["en"]])
    """the language it was judged in"""
    detected_languages: list[str] | None = Field(default=None, examples=[["en"]])
    """the language that was detected, where none was given"""
    client_token: str | None = Field(default=None, examples=["t-1"])
    """the request's"""


def discovery_document(root: str) -> dict[str, Any]:
    """Return the document of the one method that is served, at an address that ends with a slash."""
    document: JSON = parse_json(files(__package__).joinpath("discovery.json").read_bytes())
    schemas: JSON = {}
    for model in (AnalyzeCommentRequest, AnalyzeCommentResponse):
        schema = model.model_json_schema(ref_template="{model}")
        schemas |= {model.__name__: schema, **schema.pop("$defs", {})}
    described = {
        name: {
            "id": name,
            "type": "object",
            "description": schema["description"],
            "properties": {
                field: _property_of(each) for field, each in schema["properties"].items()
            },
        }
        for name, schema in schemas.items()
    }
    return {**document, "rootUrl": root, "baseUrl": root, "schemas": described}


def _property_of(schema: JSON) -> JSON:
    """Return a property as a discovery document writes it."""
    kind = next(each for each in schema.get("anyOf", [schema]) if each.get("type") != "null")
    result = {name: kind[name] for name in ("$ref", "type", "enum") if name in kind}
    if "description" in schema:
        result["description"] = schema["description"]
    for name in ("items", "additionalProperties"):
        if isinstance(kind.get(name), dict):
            result[name] = _property_of(kind[name])
    return result


_MAX_DROPPED_NAMES = 50  # in the header
_NAME_IN_HEADER = re.compile(r"[A-Za-z0-9_-]{1,60}")  # as every attribute of Google's is called

router = APIRouter(tags=["comments"], route_class=KeyFirst)
KeyInQuery = Annotated[Caller, Depends(Access("judge", in_query=True, free=False))]


@router.get(
    "/$discovery/rest",
    response_description="a document of the kind discovery#restDescription",
    responses={
        400: {"model": GoogleError, "description": "error: bad_input"},
        404: {"model": GoogleError, "description": "error: not_found"},
    },
)
async def get_discovery_document(
    request: Request,
    response: Response,
    version: Annotated[
        str | None, Query(max_length=100, description=VERSION, examples=[VERSION])
    ] = None,
) -> dict[str, Any]:
    """Give the discovery document. It is open to everybody, as `/openapi.json` is."""
    if version not in (None, VERSION):
        raise Problem("not_found", f"version: {version[:40]}: there is only {VERSION}")
    response.headers["Vary"] = (
        "Host"  # the address of the service in it is the one that the client has used
    )
    return discovery_document(str(request.base_url))


@router.post(
    "/v1alpha1/comments:analyze",
    response_model_exclude_none=True,
    responses=dropin_responses(GoogleError, header="Tribunal-Dropped-Attributes"),
)
async def analyze_comment(
    body: AnalyzeCommentRequest,
    request: Request,
    response: Response,
    replica: CurrentReplica,
    who: KeyInQuery,
) -> AnalyzeCommentResponse:
    """Score a comment. Offsets are UTF-16 code units. docs/service.md says what a score means."""
    settings = replica.intake.settings_for({})
    dropped = []
    if body.drop_unsupported_attributes or replica.options.perspective_drop:
        dropped = body.drop_other_attributes()
    _check_request(body, context_from(settings).max_text)
    text = body.comment.text
    post: JSON = {"text": text}
    earlier = body.context_texts()
    if earlier:
        post["earlier"] = earlier
    if len(body.languages) == 1:
        post["language"] = body.languages[0]
    scored = await score_posts(request, replica, who, [post], settings, keep=not body.do_not_store)
    response.headers.update(scored.headers)
    named = [name for name in dropped if _NAME_IN_HEADER.fullmatch(name)]
    if named:
        response.headers["Tribunal-Dropped-Attributes"] = ", ".join(named[:_MAX_DROPPED_NAMES])
    [record] = scored.records
    score = AttributeScore(value=score_of(record))
    spans = spans_of_record(record, text) if body.span_annotations else []
    scores = AttributeScores(
        summary_score=score,
        span_scores=[
            SpanScore(begin=begin, end=end, score=score)
            for begin, end in spans or [(0, _utf16_place(text, len(text)))]
        ],
    )
    language = [record.language] if record.language else []
    return AnalyzeCommentResponse(
        attribute_scores={
            name: scores
            for name, parameters in body.requested_attributes.items()
            if parameters.score_threshold is None or score.value >= parameters.score_threshold
        },
        languages=language,
        detected_languages=language if record.language_from == "detected" else None,
        client_token=body.client_token,
    )


@router.post("/v1alpha1/comments:suggestscore", include_in_schema=False)
async def suggest(who: KeyInQuery) -> None:
    """Refuse a suggested score: nothing here learns from any, nor does the discovery document name this."""
    raise Problem(
        "unimplemented",
        "suggestscore: nothing here learns from suggested scores, so none are taken",
    )


def _check_request(body: AnalyzeCommentRequest, max_text: int) -> None:
    """Refuse what can't be had; raise PerspectiveBadRequest if it is asked for."""
    kind = "INVALID_REQUEST"
    why = ""
    text = body.comment.text
    context = body.context
    if not text.strip():
        kind = "COMMENT_EMPTY"
        why = "comment.text: is empty; give its words"
    elif len(text) > max_text:
        kind = "COMMENT_TOO_LONG"
        why = f"comment.text: {len(text)} characters: at most {max_text} are taken"
    elif body.comment.type == "HTML":
        why = "comment.type: HTML: only PLAIN_TEXT comments are taken"
    elif not body.requested_attributes:
        kind = "NO_REQUESTED_ATTRIBUTES"
        why = f"requestedAttributes: names none; they are {', '.join(JUDGED)}"
    elif context and context.entries is not None and context.article_and_parent_comment is not None:
        why = "context: has entries and articleAndParentComment; give one of them"
    for name, parameters in body.requested_attributes.items():
        if name not in JUDGED:
            why = why or (
                f"Unknown requested attribute: {one_line(name)[:60]}: this service judges hate speech, and nothing "
                f"else; ask for {' or '.join(JUDGED)} only"
            )
        elif parameters.score_type not in ("PROBABILITY", "SCORE_TYPE_UNSPECIFIED"):
            why = (
                why
                or f"requestedAttributes.{name}.scoreType: {parameters.score_type}: only PROBABILITY is given"
            )
    if why:
        raise PerspectiveBadRequest(kind, why)


def spans_of_record(record: Record, text: str) -> list[tuple[int, int]]:
    """Return where the words stand that the prosecution rests on, in order and apart from each other.

    A cue that the prosecution withdrew is left out.

    Args:
        record: of the post.
        text: its words as they were sent.

    Returns:
        begin and end (exclusive) in UTF-16 code units, as the Perspective API counts.
    """
    spans = [
        span
        for cue in standing_cues(record.cues, record.transcript)
        for span in quoted_spans(cue, text)
    ]
    return [
        (_utf16_place(text, begin), _utf16_place(text, end)) for begin, end in merge_spans(spans)
    ]


def _utf16_place(text: str, place: int) -> int:
    return len(text[:place].encode("utf-16-le", "surrogatepass")) // 2
