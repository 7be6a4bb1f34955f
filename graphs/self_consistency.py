"""Self-consistency: the call of `baseline` drawn several times, and a vote; the peer of every debate at equal cost."""

from langgraph.graph import END

from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import DebateOutput
from tribunal.nodes.peers.single_call import draw_votes, open_vote
from tribunal.nodes.state import Views

builder = begin_graph("self_consistency", Views, DebateOutput)
builder.add_node("open", open_vote)
builder.add_node("draw", draw_votes)
builder.add_edge("receive", "open")
builder.add_edge("open", "draw")
builder.add_edge("draw", END)

graph = builder.compile(name="Self-consistency vote")
