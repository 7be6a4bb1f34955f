"""ARCADE's ablation without the gate: every post takes the deep dive whole, dismissal included (paper, section 5.5)."""

from langgraph.graph import END

from tribunal.graphs.deep_dive import graph as deep_dive
from tribunal.nodes.arcade.judge import judge_debate, to_judge
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import CourtOutput
from tribunal.nodes.state import CaseState

builder = begin_graph("multiround", CaseState, CourtOutput)
builder.add_node("deep_dive", deep_dive)
builder.add_node("judge", judge_debate)
builder.add_edge("receive", "deep_dive")
builder.add_conditional_edges(
    "deep_dive", to_judge, {"debated": "judge", "dismissed or failed": END}
)
builder.add_edge("judge", END)

graph = builder.compile(name="ARCADE deep dive")
