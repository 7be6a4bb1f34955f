"""Track I, the fast track: one indictment, one defence (ARCADE, section 4.2). The judge is its caller's."""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.arcade.defender import defend_post
from tribunal.nodes.arcade.prosecutor import indict_post
from tribunal.nodes.outputs import TrackOutput
from tribunal.nodes.state import CaseState
from tribunal.settings.context import Context

builder = StateGraph(CaseState, context_schema=Context, output_schema=TrackOutput)
builder.add_node("indict", indict_post)
builder.add_node("defend", defend_post)
builder.add_edge(START, "indict")
builder.add_edge("indict", "defend")
builder.add_edge("defend", END)

graph = compile_subgraph(builder, "fast_track")
