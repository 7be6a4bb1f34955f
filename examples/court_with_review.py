"""A pipeline of one's own: a gatekeeper, the fast or the deep trial, a judge, and a person who reviews the verdict."""

from langgraph.graph import END, START, StateGraph

from tribunal import pieces

builder = StateGraph(
    pieces.Case,
    context_schema=pieces.Context,
    input_schema=pieces.PostInput,
    output_schema=pieces.Ruling,
)
builder.add_node("receive", pieces.receive)
builder.add_node("open", pieces.open_case)
builder.add_node("gatekeeper", pieces.scan)
builder.add_node("fast", pieces.fast_trial)
builder.add_node("deep", pieces.deep_trial)
builder.add_node("judge", pieces.court_judge)
builder.add_node("review", pieces.review)
builder.add_edge(START, "receive")
builder.add_edge("receive", "open")
builder.add_edge("open", "gatekeeper")
builder.add_conditional_edges(
    "gatekeeper", pieces.to_track, {"explicit cue": "fast", "no cue": "deep"}
)
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
    {"sent back": "gatekeeper", "sent back, no scan": "gatekeeper", "decided": END},
)

graph = pieces.checked(builder).compile(name="Court with review")
