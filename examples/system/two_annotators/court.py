"""Two annotators label a post apart from each other; an adjudicator decides where they differ."""

from typing import Any

from langgraph.graph import END, START, StateGraph

from tribunal import pieces

SYSTEM = pieces.System(
    name="two_annotators",
    about="two annotators label a post apart from each other; an adjudicator decides where they differ",
    seats=("first", "second", "adjudicator"),
    prompts="two_annotators:prompts",
    experiments="two_annotators:experiments",
)


class Labels(pieces.Case, total=False):
    """A case, with the label of each annotator in a channel of its own."""

    first: dict[str, Any]
    second: dict[str, Any]


def annotator(name: str) -> Any:
    """Return a node that labels the post by itself. Where it gives no answer, the adjudicator decides."""
    return pieces.seat(
        name,
        prompt="two_annotators/annotate",
        form=pieces.decision_form,
        temperature=0.7,
        required=False,
        writes=[name],
        write=lambda form, state: {name: form.model_dump()},
    )


@pieces.piece(needs=["first", "second"], writes=["outcome"])
async def agree(state: Labels) -> Any:
    """End the case where both annotators gave the same label. A seat asks nobody once a case has its outcome."""
    first, second = state.get("first"), state.get("second")
    if first and second and first["category"] == second["category"]:
        return await pieces.verdict(state, first["category"], first["explanation"])
    return {}


async def decide(form: Any, state: Labels) -> Any:
    """End the case with the decision of the adjudicator."""
    return await pieces.verdict(state, form.category, form.explanation)


adjudicator = pieces.seat(
    "adjudicator",
    prompt="two_annotators/adjudicate",
    form=pieces.decision_form,
    shows=["first", "second"],
    temperature=0.0,
    falls_to="judge_model",
    final=True,
    writes=["outcome"],
    write=decide,
)

builder = StateGraph(
    Labels,
    context_schema=pieces.Context,
    input_schema=pieces.PostInput,
    output_schema=pieces.Ruling,
)
builder.add_node("receive", pieces.received_by(SYSTEM.name))
builder.add_node("first", annotator("first"))
builder.add_node("second", annotator("second"))
builder.add_node("agree", agree)
builder.add_node("adjudicator", adjudicator)
builder.add_edge(START, "receive")
builder.add_edge("receive", "first")
builder.add_edge("receive", "second")
builder.add_edge(["first", "second"], "agree")
builder.add_edge("agree", "adjudicator")
builder.add_edge("adjudicator", END)

graph = pieces.checked(builder).compile(name=SYSTEM.name)
