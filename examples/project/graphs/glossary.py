"""The glossary and the archive at the same time, ARCADE's deep dive over both, the court's judge."""

from langgraph.graph import END, START, StateGraph
from nodes.archive import Decisions
from nodes.glossary import look_up

from tribunal.pieces import (
    Case,
    Context,
    PostInput,
    Ruling,
    checked,
    court_judge,
    deep_trial,
    evidence_from,
    receive,
)

builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("glossary", look_up)
builder.add_node("archive", evidence_from(Decisions(), letter="D"))
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "glossary")
builder.add_edge("receive", "archive")
builder.add_edge(["glossary", "archive"], "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)

graph = checked(builder).compile(name="glossary")
