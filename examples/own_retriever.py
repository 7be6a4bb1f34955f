"""A retriever of one's own before the deep dive: a glossary, whose entries the court cites by id."""

from langgraph.graph import END, START, StateGraph

from tribunal.pieces import (
    Case,
    Context,
    Evidence,
    PostInput,
    Ruling,
    checked,
    court_judge,
    deep_trial,
    piece,
    receive,
)

GLOSSARY = {
    "weeds": "Said of people, “weeds” is an old dehumanising image: unwanted, and to be rooted out."
}


@piece(needs=["post"], writes=["evidence"])
async def look_up(state: Case) -> Case:
    """Return the glossary's entries for words of the post."""
    found = [word for word in GLOSSARY if word in state["post"]["text"].casefold()]
    return {
        "evidence": [
            Evidence.of(f"G{n}", GLOSSARY[w], "supports", w) for n, w in enumerate(found, start=1)
        ]
    }


builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("glossary", look_up)
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "glossary")
builder.add_edge("glossary", "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)

graph = checked(builder).compile(name="Glossary court")
