"""DICT: two debaters over two rounds, each with the reasons of its own side (PREDICT, section 3.2, Algorithm 2).

The judge is its caller's.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.outputs import ArguedOutput
from tribunal.nodes.predict.debater import (
    answer_hate,
    answer_non_hate,
    open_hate,
    open_non_hate,
    to_responses,
)
from tribunal.nodes.state import PanelState
from tribunal.settings.context import Context

builder = StateGraph(PanelState, context_schema=Context, output_schema=ArguedOutput)
builder.add_node("open_non_hate", open_non_hate)
builder.add_node("open_hate", open_hate)
builder.add_node("answer_non_hate", answer_non_hate)
builder.add_node("answer_hate", answer_hate)
builder.add_edge(START, "open_non_hate")
builder.add_edge("open_non_hate", "open_hate")
builder.add_conditional_edges(
    "open_hate", to_responses, {"both opened": "answer_non_hate", "no responses": END}
)
builder.add_edge("answer_non_hate", "answer_hate")
builder.add_edge("answer_hate", END)

graph = compile_subgraph(builder, "debate")
