"""MV-Debate: views debate in rounds, with a reflection that must earn its place, until they agree (the paper)."""

from langgraph.graph import END

from tribunal.graphs.debate_round import graph as debate_round
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.mv_debate.scoring import summarise_debate, to_next_round
from tribunal.nodes.mv_debate.views import open_debate
from tribunal.nodes.outputs import DebateOutput
from tribunal.nodes.state import Views
from tribunal.settings.names import MAX_ROUNDS

builder = begin_graph("mv_debate", Views, DebateOutput)
builder.add_node("open", open_debate)
builder.add_node("debate_round", debate_round)
builder.add_node("summarise", summarise_debate)
builder.add_edge("receive", "open")
builder.add_edge("open", "debate_round")
builder.add_conditional_edges(
    "debate_round",
    to_next_round,
    {
        "no agreement yet": "debate_round",
        "agreed, or K rounds done": "summarise",
        "too few left": END,
    },
)
builder.add_edge("summarise", END)

graph = builder.compile(name="MV-Debate of views").with_config(recursion_limit=MAX_ROUNDS + 5)
