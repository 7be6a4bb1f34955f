"""Debate-to-Detect (Han, Zheng and Tang, EMNLP 2025), with the question whether a post is hate speech.

Two teams with fixed stances speak in four stages: opening, rebuttal, free debate, closing (Section 3). A summary
follows, and five judges each split seven points between the teams on a dimension of their own. 35 points can't be split
evenly, so there is always a winner.

Where this differs from the published system: the affirmative team defends the post and the negative team accuses it;
one call writes the domain and all profiles, which the authors' code asks for one by one; the judges don't hear each
other.
"""

from typing import Annotated, Any

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

from tribunal import BadInput, pieces

SYSTEM = pieces.System(
    name="debate_to_detect",
    about="two teams debate in four stages; five judges split points between them",
    seats=("profiler", "affirmative", "negative", "summariser", "judge"),
    prompts="debate_to_detect:prompts",
    experiments="debate_to_detect:experiments",
)
STAGES = ("opening", "rebuttal", "free", "closing")
DIMENSIONS = ("accuracy", "sources", "reasoning", "clarity", "ethics")
POINTS = 7


class Profiles(BaseModel):
    """The domain of a post, and who should speak about it."""

    domain: Annotated[str, Field(min_length=1, max_length=120)]
    affirmative: Annotated[str, Field(min_length=1, max_length=400)]
    negative: Annotated[str, Field(min_length=1, max_length=400)]
    judges: Annotated[str, Field(min_length=1, max_length=400)]


class Statement(BaseModel):
    """The statement of a team in a stage."""

    statement: Annotated[str, Field(min_length=1, max_length=1200)]


class Summary(BaseModel):
    """The debate in short."""

    summary: Annotated[str, Field(min_length=1, max_length=1200)]


class Points(BaseModel):
    """The points that a judge gives each team, and why."""

    reason: Annotated[str, Field(min_length=1, max_length=600)]
    affirmative: Annotated[int, Field(ge=0, le=POINTS)]
    negative: Annotated[int, Field(ge=0, le=POINTS)]


class Debate(pieces.Case, total=False):
    """A case, with what the debate adds to it."""

    profiles: dict[str, Any]
    summary: str
    accuracy: dict[str, Any]
    sources: dict[str, Any]
    reasoning: dict[str, Any]
    clarity: dict[str, Any]
    ethics: dict[str, Any]


@pieces.piece(needs=["post"])
async def check_scheme(state: Debate) -> Any:
    """Refuse a scheme with kinds of hate speech: the judges of this debate decide between two teams."""
    scheme = pieces.context_of(state).scheme
    if scheme != "binary":
        raise BadInput(
            f"scheme: {scheme}: this debate has two sides, and names no kind of hate; give --scheme binary"
        )
    return {}


profiler = pieces.seat(
    "profiler",
    prompt="debate_to_detect/profiler",
    form=Profiles,
    temperature=0.0,
    writes=["profiles"],
    write=lambda form, state: {"profiles": form.model_dump()},
)
summariser = pieces.seat(
    "summariser",
    prompt="debate_to_detect/summary",
    form=Summary,
    shows=["transcript"],
    temperature=0.2,
    falls_to="judge_model",
    writes=["summary"],
    write=lambda form, state: {"summary": form.summary},
)


def speaker(team: str, stage: str) -> Any:
    """Return a node that speaks for a team in a stage. It is shown the whole debate so far."""
    return pieces.seat(
        f"{team}:{stage}",
        prompt=f"debate_to_detect/{team}_{stage}",
        form=Statement,
        shows=["profiles", "transcript"]
        if (team, stage) != ("affirmative", "opening")
        else ["profiles"],
        temperature=1.0,
    )


def judge(dimension: str) -> Any:
    """Return a node that splits the points on one dimension. Where it gives no answer, its points are missing."""
    return pieces.seat(
        f"judge:{dimension}",
        prompt=f"debate_to_detect/judge_{dimension}",
        form=Points,
        shows=["profiles", "transcript", "summary"],
        temperature=1.0,
        falls_to="judge_model",
        final=True,
        required=False,
        writes=[dimension],
        write=lambda form, state: {dimension: form.model_dump()},
    )


@pieces.piece(needs=DIMENSIONS, writes=["outcome"])
async def count_points(state: Debate) -> Any:
    """End the case for the team with more points. Points that don't add up to seven count by their ratio."""
    if state.get("outcome"):  # a seat before the judges failed
        return {}
    given = {name: state[name] for name in DIMENSIONS if state.get(name)}  # type: ignore[literal-required]
    shares = {name: _share(each["negative"], each["affirmative"]) for name, each in given.items()}
    if not shares:
        return pieces.refusal(state, "no judge gave points", seat="judge:accuracy")
    accused = sum(shares.values()) / len(shares)
    policy, scheme = await pieces.policy_of(state), pieces.context_of(state).scheme
    categories = policy.categories(scheme)
    reasons = " ".join(
        f"{name} {each['affirmative']}:{each['negative']}, {each['reason']}"
        for name, each in given.items()
    )
    winner = "The accusation" if accused > 0.5 else "The defence"
    return await pieces.verdict(
        state,
        categories[int(accused > 0.5)].name,
        f"{winner} won the debate. Points for the defence and the accusation: {reasons}",
        confidence=max(accused, 1 - accused),
        uncertain=len(given) < len(DIMENSIONS),
        tie=accused == 0.5,
    )


def _share(negative: int, affirmative: int) -> float:
    return negative / (negative + affirmative) if negative + affirmative else 0.5


builder = StateGraph(
    Debate,
    context_schema=pieces.Context,
    input_schema=pieces.PostInput,
    output_schema=pieces.Ruling,
)
builder.add_node("receive", pieces.received_by(SYSTEM.name))
builder.add_node("check_scheme", check_scheme)
builder.add_node("profiler", profiler)
builder.add_edge(START, "receive")
builder.add_edge("receive", "check_scheme")
builder.add_edge("check_scheme", "profiler")
last = "profiler"
for stage in STAGES:
    for team in ("affirmative", "negative"):
        builder.add_node(f"{team}_{stage}", speaker(team, stage))
        builder.add_edge(last, f"{team}_{stage}")
        last = f"{team}_{stage}"
builder.add_node("summarise", summariser)
builder.add_edge(last, "summarise")
for dimension in DIMENSIONS:
    builder.add_node(f"judge_{dimension}", judge(dimension))
    builder.add_edge("summarise", f"judge_{dimension}")
builder.add_node("count_points", count_points)
builder.add_edge([f"judge_{dimension}" for dimension in DIMENSIONS], "count_points")
builder.add_edge("count_points", END)

graph = pieces.checked(builder).compile(name=SYSTEM.name)
