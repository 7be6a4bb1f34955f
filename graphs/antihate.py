"""AntiHateAgent: research on the web until the evidence suffices, then a verdict that cites it (paper, section 3)."""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.research import graph as research
from tribunal.graphs.server_cases import keep_cases
from tribunal.nodes.antihate.opening import begin, to_research
from tribunal.nodes.antihate.verdict import answer, conclude
from tribunal.nodes.intake import received_by
from tribunal.nodes.state import PostInput, Research, ResearchOutput
from tribunal.offered import settings_of

builder = StateGraph(
    Research, context_schema=settings_of("antihate"), input_schema=PostInput, output_schema=ResearchOutput
)
builder.add_node("receive", received_by("antihate"))
builder.add_node("begin", begin)
builder.add_node("research", research)
builder.add_node("conclude", conclude)
builder.add_node("answer", answer)
builder.add_edge(START, "receive")
builder.add_edge("receive", "begin")
builder.add_conditional_edges(
    "begin", to_research, {"with knowledge": "research", "mode no-knowledge": "conclude", "mode zero-shot": "answer"}
)
builder.add_edge("research", "conclude")
builder.add_edge("conclude", END)
builder.add_edge("answer", END)

graph = keep_cases(builder.compile(name="AntiHateAgent research"))
