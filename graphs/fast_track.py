"""Track I, the fast track: one indictment, one defence (ARCADE, section 4.2). The judge is its caller's."""

from langgraph.graph import END, START, StateGraph

from tribunal.context import Context
from tribunal.nodes.arcade.defender import defend
from tribunal.nodes.arcade.prosecutor import indict
from tribunal.nodes.state import Court, TrackOutput

builder = StateGraph(Court, context_schema=Context, output_schema=TrackOutput)
builder.add_node("indict", indict)
builder.add_node("defend", defend)
builder.add_edge(START, "indict")
builder.add_edge("indict", "defend")
builder.add_edge("defend", END)

graph = builder.compile(name="fast_track")
