"""ARCADE's ablation without the gate: every post takes the deep dive whole, dismissal included (paper, section 5.5)."""

from langgraph.graph import END, START, StateGraph

from tribunal.context import Context
from tribunal.graphs.deep_dive import graph as deep_dive
from tribunal.nodes.arcade.judge import judge, to_judge
from tribunal.nodes.intake import receive
from tribunal.nodes.state import Court, CourtOutput, PostInput

builder = StateGraph(Court, context_schema=Context, input_schema=PostInput, output_schema=CourtOutput)
builder.add_node("receive", receive)
builder.add_node("deep_dive", deep_dive)
builder.add_node("judge", judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "deep_dive")
builder.add_conditional_edges("deep_dive", to_judge)
builder.add_edge("judge", END)

graph = builder.compile(name="multiround")
