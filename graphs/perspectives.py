"""PRE: every perspective recalls its three nearest texts and takes a stance, all at the same time (PREDICT, 3.1)."""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.outputs import PerspectivesOutput
from tribunal.nodes.predict.perspective import recall_examples, take_stance, to_perspectives
from tribunal.nodes.state import PanelState
from tribunal.settings.context import Context

builder = StateGraph(PanelState, context_schema=Context, output_schema=PerspectivesOutput)
builder.add_node("recall", recall_examples)
builder.add_node("perspective", take_stance)
builder.add_edge(START, "recall")
builder.add_conditional_edges("recall", to_perspectives, {"each at once": "perspective"})
builder.add_edge("perspective", END)

graph = compile_subgraph(builder, "perspectives")
