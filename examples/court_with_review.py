"""A pipeline of one's own: a gatekeeper, the fast or the deep trial, a judge, and a person who reviews the verdict."""

from langgraph.graph import END, START, StateGraph

from tribunal import pieces
from tribunal.pieces import Case, Context, PostInput, Ruling

builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", pieces.receive)
builder.add_node("open", pieces.open_case)
builder.add_node("scan", pieces.scan)
builder.add_node("fast", pieces.fast_trial)
builder.add_node("deep", pieces.deep_trial)
builder.add_node("judge", pieces.court_judge)
builder.add_node("review", pieces.review)
builder.add_edge(START, "receive")
builder.add_edge("receive", "open")
builder.add_edge("open", "scan")
builder.add_conditional_edges("scan", pieces.to_track, {"explicit cue": "fast", "no cue": "deep"})
builder.add_edge("fast", "judge")
builder.add_conditional_edges(
    "deep",
    pieces.to_judge,
    {"debated": "judge", "for review": "review", "dismissed or failed": END},
)
builder.add_conditional_edges("judge", pieces.to_review, {"for review": "review", "decided": END})
builder.add_conditional_edges(
    "review",
    pieces.to_retrial,
    {"sent back": "scan", "sent back, no scan": "scan", "decided": END},
)

graph = pieces.checked(builder).compile(name="Court with review")
