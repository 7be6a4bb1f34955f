"""The baseline: one call. Of hate the one that ARCADE is compared with (Appendix D.3); else MV-Debate's zero-shot."""

from langgraph.graph import END

from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import BaselineOutput
from tribunal.nodes.peers.single_call import classify_post
from tribunal.nodes.state import Views

builder = begin_graph("baseline", Views, BaselineOutput)
builder.add_node("classify", classify_post)
builder.add_edge("receive", "classify")
builder.add_edge("classify", END)

graph = builder.compile(name="One-call classifier")
