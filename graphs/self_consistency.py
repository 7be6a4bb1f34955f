"""Self-consistency: the call of `baseline` drawn several times, and a vote; the peer of every debate at equal cost."""

from langgraph.graph import END, START, StateGraph

from tribunal.graph_form import settings_of
from tribunal.graphs import keep_cases
from tribunal.nodes.intake import received_by
from tribunal.nodes.peers.self_consistency import draw_votes, open_vote
from tribunal.nodes.state import DebateOutput, PostInput, Views

builder = StateGraph(
    Views, context_schema=settings_of("self_consistency"), input_schema=PostInput, output_schema=DebateOutput
)
builder.add_node("receive", received_by("self_consistency"))
builder.add_node("open", open_vote)
builder.add_node("draw", draw_votes)
builder.add_edge(START, "receive")
builder.add_edge("receive", "open")
builder.add_edge("open", "draw")
builder.add_edge("draw", END)

graph = keep_cases(builder.compile(name="Self-consistency vote"))
