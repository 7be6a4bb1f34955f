"""ARCADE's ablation without the gate: every post takes the deep dive whole, dismissal included (paper, section 5.5)."""

from langgraph.graph import END, START, StateGraph

from tribunal.graph_form import settings_of
from tribunal.graphs import keep_cases
from tribunal.graphs.deep_dive import graph as deep_dive
from tribunal.nodes.arcade.judge import judge_debate, to_judge
from tribunal.nodes.intake import received_by
from tribunal.nodes.state import CaseState, CourtOutput, PostInput

builder = StateGraph(
    CaseState, context_schema=settings_of("multiround"), input_schema=PostInput, output_schema=CourtOutput
)
builder.add_node("receive", received_by("multiround"))
builder.add_node("deep_dive", deep_dive)
builder.add_node("judge", judge_debate)
builder.add_edge(START, "receive")
builder.add_edge("receive", "deep_dive")
builder.add_conditional_edges("deep_dive", to_judge, {"debated": "judge", "dismissed or failed": END})
builder.add_edge("judge", END)

graph = keep_cases(builder.compile(name="ARCADE deep dive"))
