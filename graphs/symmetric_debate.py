"""Symmetric debate: equals see all the others' answers for some rounds, then vote (MV-Debate's MAD; Du et al.)."""

from langgraph.graph import END, START, StateGraph

from tribunal.context import MAX_ROUNDS
from tribunal.graphs.server_cases import keep_cases
from tribunal.nodes.intake import received_by
from tribunal.nodes.mv_debate.views import open_debate
from tribunal.nodes.peers.symmetric_debate import next_round, speak, to_agents, vote
from tribunal.nodes.state import DebateOutput, PostInput, Views
from tribunal.offered import settings_of

builder = StateGraph(
    Views, context_schema=settings_of("symmetric_debate"), input_schema=PostInput, output_schema=DebateOutput
)
builder.add_node("receive", received_by("symmetric_debate"))
builder.add_node("open", open_debate)
builder.add_node("next_round", next_round)
builder.add_node("speak", speak)
builder.add_node("vote", vote)
builder.add_edge(START, "receive")
builder.add_edge("receive", "open")
builder.add_edge("open", "next_round")
builder.add_conditional_edges(
    "next_round",
    to_agents,
    {"each at once": "speak", "round to close": "next_round", "K rounds done": "vote", "too few left": END},
)
builder.add_edge("speak", "next_round")
builder.add_edge("vote", END)

graph = keep_cases(builder.compile(name="Symmetric debate").with_config(recursion_limit=2 * MAX_ROUNDS + 6))
