"""Track II, the deep dive: an investigation, then K rounds of debate, or a summary dismissal (ARCADE, section 4.2).

The judge is its caller's.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.context import MAX_ROUNDS, Context
from tribunal.nodes.arcade.defender import defend, to_prosecution_or_rest
from tribunal.nodes.arcade.prosecutor import (
    dismiss,
    investigate,
    prosecute,
    rest,
    to_defence_or_dismissal,
    to_defence_or_rest,
)
from tribunal.nodes.state import Court, TrackOutput

builder = StateGraph(Court, context_schema=Context, output_schema=TrackOutput)
builder.add_node("investigate", investigate)
builder.add_node("defend", defend)
builder.add_node("prosecute", prosecute)
builder.add_node("rest", rest)
builder.add_node("dismiss", dismiss)
builder.add_edge(START, "investigate")
builder.add_conditional_edges(
    "investigate", to_defence_or_dismissal, {"a cue": "defend", "no cue": "dismiss", "no answer": END}
)
builder.add_conditional_edges(
    "defend",
    to_prosecution_or_rest,
    {"next round": "prosecute", "no cue in dispute": "rest", "K rounds done": END},
)
builder.add_conditional_edges("prosecute", to_defence_or_rest, {"argued": "defend", "no cue in dispute": "rest"})
builder.add_edge("rest", END)
builder.add_edge("dismiss", END)

graph = builder.compile(name="deep_dive").with_config(recursion_limit=2 * MAX_ROUNDS + 5)
