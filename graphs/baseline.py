"""The baseline: one call. Of hate the one that ARCADE is compared with (Appendix D.3); else MV-Debate's zero-shot."""

from langgraph.graph import END, START, StateGraph

from tribunal.graph_form import settings_of
from tribunal.graphs import keep_cases
from tribunal.nodes.intake import received_by
from tribunal.nodes.peers.single_call import classify_post
from tribunal.nodes.state import BaselineOutput, PostInput, Views

builder = StateGraph(
    Views, context_schema=settings_of("baseline"), input_schema=PostInput, output_schema=BaselineOutput
)
builder.add_node("receive", received_by("baseline"))
builder.add_node("classify", classify_post)
builder.add_edge(START, "receive")
builder.add_edge("receive", "classify")
builder.add_edge("classify", END)

graph = keep_cases(builder.compile(name="One-call classifier"))
