"""The hybrid court: ARCADE's trial, with the web, perspectives and precedents at hand, and a person's last word."""

from langgraph.graph import END

from tribunal.graphs.contracts import checked
from tribunal.graphs.deep_dive import graph as deep_dive
from tribunal.graphs.fast_track import graph as fast_track
from tribunal.graphs.perspectives import graph as perspectives
from tribunal.graphs.web import graph as web
from tribunal.nodes.arcade.gatekeeper import scan_post, to_track
from tribunal.nodes.arcade.judge import judge_debate
from tribunal.nodes.court.case import (
    assign_track,
    find_precedents,
    open_case,
    to_court_unless_clear,
    to_judge,
    to_review,
    to_triage,
    triage_post,
)
from tribunal.nodes.court.review import review_case, to_retrial
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import Ruling
from tribunal.nodes.state import Case

builder = begin_graph("tribunal", Case, Ruling)
builder.add_node("open_case", open_case)
builder.add_node("triage", triage_post)
builder.add_node("gatekeeper", scan_post)
builder.add_node("web", web)
builder.add_node("perspectives", perspectives)
builder.add_node("find_precedents", find_precedents)
builder.add_node("assign", assign_track)
builder.add_node("fast_track", fast_track)
builder.add_node("deep_dive", deep_dive)
builder.add_node("judge", judge_debate)
builder.add_node("review", review_case)
builder.add_edge("receive", "open_case")
builder.add_conditional_edges(
    "open_case",
    to_triage,
    {
        "first look": "triage",
        "no first look": "gatekeeper",
        "web wanted": "web",
        "some named": "perspectives",
        "a store named": "find_precedents",
    },
)
builder.add_conditional_edges(
    "triage",
    to_court_unless_clear,
    {
        "not clear": "gatekeeper",
        "web wanted": "web",
        "some named": "perspectives",
        "a store named": "find_precedents",
        "for review": "review",
        "clear": END,
    },
)
builder.add_edge("gatekeeper", "assign")
builder.add_edge("web", "assign")
builder.add_edge("perspectives", "assign")
builder.add_edge("find_precedents", "assign")
builder.add_conditional_edges(
    "assign", to_track, {"explicit cue": "fast_track", "no cue": "deep_dive"}
)
builder.add_edge("fast_track", "judge")
builder.add_conditional_edges(
    "deep_dive", to_judge, {"debated": "judge", "for review": "review", "dismissed or failed": END}
)
builder.add_conditional_edges("judge", to_review, {"for review": "review", "decided": END})
builder.add_conditional_edges(
    "review",
    to_retrial,
    {"sent back, no scan": "gatekeeper", "sent back": "assign", "decided": END},
)

graph = checked(builder).compile(name="Hybrid court")
