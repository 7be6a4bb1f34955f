"""Track I, the fast track: one indictment, one defence (ARCADE, section 4.2). The judge is its caller's."""

from langgraph.graph import END, START, StateGraph

from nodes.context import Context
from nodes.defender import defend
from nodes.prosecutor import indict
from nodes.state import Court, Debate

builder = StateGraph(Court, context_schema=Context, output_schema=Debate)
builder.add_node("indict", indict)
builder.add_node("defend", defend)
builder.add_edge(START, "indict")
builder.add_edge("indict", "defend")
builder.add_edge("defend", END)

graph = builder.compile(name="fast_track")
