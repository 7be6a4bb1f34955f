"""The baseline: one call. Of hate the one that ARCADE is compared with (Appendix D.3), of other tasks MV-Debate's."""

from langgraph.graph import END, START, StateGraph

from tribunal.context import Context
from tribunal.nodes.arcade.judge import classify
from tribunal.nodes.intake import receive_any
from tribunal.nodes.state import Court, CourtOutput, PostInput

builder = StateGraph(Court, context_schema=Context, input_schema=PostInput, output_schema=CourtOutput)
builder.add_node("receive", receive_any)
builder.add_node("classify", classify)
builder.add_edge(START, "receive")
builder.add_edge("receive", "classify")
builder.add_edge("classify", END)

graph = builder.compile(name="baseline")
