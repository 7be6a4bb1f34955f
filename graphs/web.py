"""A look at the web for a court: AntiHateAgent's loop, without its verdict (section 3, phases 1 and 2)."""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.research import graph as research
from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.court.case import begin_lookup, report_research
from tribunal.nodes.outputs import WebOutput
from tribunal.nodes.state import Case
from tribunal.settings.context import Context

builder = StateGraph(Case, context_schema=Context, output_schema=WebOutput)
builder.add_node("look_up", begin_lookup)
builder.add_node("research", research)
builder.add_node("report", report_research)
builder.add_edge(START, "look_up")
builder.add_edge("look_up", "research")
builder.add_edge("research", "report")
builder.add_edge("report", END)

graph = compile_subgraph(builder, "web")
