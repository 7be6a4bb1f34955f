"""ARCADE: a gatekeeper routes each post to a fast-track or deep-dive trial, and a judge decides (paper, section 4)."""

from langgraph.graph import END

from tribunal.graphs.contracts import checked
from tribunal.graphs.deep_dive import graph as deep_dive
from tribunal.graphs.fast_track import graph as fast_track
from tribunal.nodes.arcade.gatekeeper import scan_post, to_track
from tribunal.nodes.arcade.judge import judge_debate, to_judge
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import CourtOutput
from tribunal.nodes.state import CaseState

builder = begin_graph("arcade", CaseState, CourtOutput)
builder.add_node("gatekeeper", scan_post)
builder.add_node("fast_track", fast_track)
builder.add_node("deep_dive", deep_dive)
builder.add_node("judge", judge_debate)
builder.add_edge("receive", "gatekeeper")
builder.add_conditional_edges(
    "gatekeeper", to_track, {"explicit cue": "fast_track", "no cue": "deep_dive"}
)
builder.add_edge("fast_track", "judge")
builder.add_conditional_edges(
    "deep_dive", to_judge, {"debated": "judge", "dismissed or failed": END}
)
builder.add_edge("judge", END)

graph = checked(builder).compile(name="ARCADE court")
