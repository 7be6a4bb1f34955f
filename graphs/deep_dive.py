"""Track II, the deep dive: an investigation, then K rounds of debate, or a summary dismissal (ARCADE, section 4.2).

The judge is its caller's.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.arcade.defender import defend_post, to_prosecution_or_rest
from tribunal.nodes.arcade.prosecutor import (
    dismiss_case,
    investigate_post,
    press_cues,
    rest_case,
    to_defence_or_dismissal,
    to_defence_or_rest,
)
from tribunal.nodes.outputs import TrackOutput
from tribunal.nodes.state import CaseState
from tribunal.settings.context import Context
from tribunal.settings.names import MAX_ROUNDS

builder = StateGraph(CaseState, context_schema=Context, output_schema=TrackOutput)
builder.add_node("investigate", investigate_post)
builder.add_node("defend", defend_post)
builder.add_node("prosecute", press_cues)
builder.add_node("rest", rest_case)
builder.add_node("dismiss", dismiss_case)
builder.add_edge(START, "investigate")
builder.add_conditional_edges(
    "investigate",
    to_defence_or_dismissal,
    {"a cue": "defend", "no cue": "dismiss", "no answer": END},
)
builder.add_conditional_edges(
    "defend",
    to_prosecution_or_rest,
    {"next round": "prosecute", "no cue in dispute": "rest", "K rounds done": END},
)
builder.add_conditional_edges(
    "prosecute", to_defence_or_rest, {"argued": "defend", "no cue in dispute": "rest"}
)
builder.add_edge("rest", END)
builder.add_edge("dismiss", END)

graph = compile_subgraph(builder, "deep_dive", recursion_limit=2 * MAX_ROUNDS + 5)
