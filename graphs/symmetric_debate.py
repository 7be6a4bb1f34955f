"""Symmetric debate: equals see all the others' answers for some rounds, then vote (MV-Debate's MAD; Du et al.)."""

from langgraph.graph import END

from tribunal.nodes.intake import begin_graph
from tribunal.nodes.mv_debate.views import open_debate
from tribunal.nodes.outputs import DebateOutput
from tribunal.nodes.peers.symmetric_debate import (
    answer_as_agent,
    open_next_round,
    to_agents,
    vote_on_answers,
)
from tribunal.nodes.state import Views
from tribunal.settings.names import MAX_ROUNDS

builder = begin_graph("symmetric_debate", Views, DebateOutput)
builder.add_node("open", open_debate)
builder.add_node("next_round", open_next_round)
builder.add_node("speak", answer_as_agent)
builder.add_node("vote", vote_on_answers)
builder.add_edge("receive", "open")
builder.add_edge("open", "next_round")
builder.add_conditional_edges(
    "next_round",
    to_agents,
    {
        "each at once": "speak",
        "round to close": "next_round",
        "K rounds done": "vote",
        "too few left": END,
    },
)
builder.add_edge("speak", "next_round")
builder.add_edge("vote", END)

graph = builder.compile(name="Symmetric debate").with_config(recursion_limit=2 * MAX_ROUNDS + 6)
