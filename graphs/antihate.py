"""AntiHateAgent: research on the web until the evidence suffices, then a verdict that cites it (paper, section 3)."""

from langgraph.graph import END

from tribunal.graphs.research import graph as research
from tribunal.nodes.antihate.judgement import answer_zero_shot, decide_by_evidence
from tribunal.nodes.antihate.research import begin_research, to_research
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import ResearchOutput
from tribunal.nodes.state import ResearchState

builder = begin_graph("antihate", ResearchState, ResearchOutput)
builder.add_node("begin", begin_research)
builder.add_node("research", research)
builder.add_node("conclude", decide_by_evidence)
builder.add_node("answer", answer_zero_shot)
builder.add_edge("receive", "begin")
builder.add_conditional_edges(
    "begin",
    to_research,
    {"with knowledge": "research", "mode no-knowledge": "conclude", "mode zero-shot": "answer"},
)
builder.add_edge("research", "conclude")
builder.add_edge("conclude", END)
builder.add_edge("answer", END)

graph = builder.compile(name="AntiHateAgent research")
