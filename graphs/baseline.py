"""The baseline that ARCADE is compared with: one call to a safety classifier (paper, Appendix D.3)."""

from langgraph.graph import END, START, StateGraph

from nodes.context import Context
from nodes.intake import receive
from nodes.judge import classify
from nodes.state import Court, PostInput, Ruling

builder = StateGraph(Court, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("classify", classify)
builder.add_edge(START, "receive")
builder.add_edge("receive", "classify")
builder.add_edge("classify", END)

graph = builder.compile(name="baseline")
