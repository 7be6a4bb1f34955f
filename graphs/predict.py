"""PREDICT: perspectives with memory take their stances, two debaters argue from them, a judge decides (the paper)."""

from langgraph.graph import END

from tribunal.graphs.debate import graph as debate
from tribunal.graphs.perspectives import graph as perspectives
from tribunal.nodes.intake import begin_graph
from tribunal.nodes.outputs import PredictOutput
from tribunal.nodes.predict.debater import (
    annotate_post,
    decide_by_majority,
    end_if_unheard,
    judge_panel,
    to_debate_or_vote,
    to_perspectives_or_annotator,
)
from tribunal.nodes.predict.perspective import convene_panel
from tribunal.nodes.state import PanelState

builder = begin_graph("predict", PanelState, PredictOutput)
builder.add_node("convene", convene_panel)
builder.add_node("perspectives", perspectives)
builder.add_node("heard", end_if_unheard)
builder.add_node("debate", debate)
builder.add_node("judge", judge_panel)
builder.add_node("vote", decide_by_majority)
builder.add_node("annotate", annotate_post)
builder.add_edge("receive", "convene")
builder.add_conditional_edges(
    "convene", to_perspectives_or_annotator, {"heard": "perspectives", "mode base": "annotate"}
)
builder.add_edge("perspectives", "heard")
builder.add_conditional_edges(
    "heard",
    to_debate_or_vote,
    {"stances taken": "debate", "mode without debate": "vote", "nobody heard": END},
)
builder.add_edge("debate", "judge")
builder.add_edge("judge", END)
builder.add_edge("vote", END)
builder.add_edge("annotate", END)

graph = builder.compile(name="PREDICT panel")
