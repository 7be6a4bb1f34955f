"""PREDICT: perspectives with memory take their stances, two debaters argue from them, a judge decides (the paper)."""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.debate import graph as debate
from tribunal.graphs.perspectives import graph as perspectives
from tribunal.graphs.server_cases import keep_cases
from tribunal.nodes.intake import received_by
from tribunal.nodes.predict.debater import (
    annotate,
    heard,
    judge_debate,
    to_debate_or_vote,
    to_perspectives_or_annotator,
    vote,
)
from tribunal.nodes.predict.perspective import convene
from tribunal.nodes.state import Panel, PostInput, PredictOutput
from tribunal.offered import settings_of

builder = StateGraph(Panel, context_schema=settings_of("predict"), input_schema=PostInput, output_schema=PredictOutput)
builder.add_node("receive", received_by("predict"))
builder.add_node("convene", convene)
builder.add_node("perspectives", perspectives)
builder.add_node("heard", heard)
builder.add_node("debate", debate)
builder.add_node("judge", judge_debate)
builder.add_node("vote", vote)
builder.add_node("annotate", annotate)
builder.add_edge(START, "receive")
builder.add_edge("receive", "convene")
builder.add_conditional_edges(
    "convene", to_perspectives_or_annotator, {"heard": "perspectives", "mode base": "annotate"}
)
builder.add_edge("perspectives", "heard")
builder.add_conditional_edges(
    "heard", to_debate_or_vote, {"stances taken": "debate", "mode without debate": "vote", "nobody heard": END}
)
builder.add_edge("debate", "judge")
builder.add_edge("judge", END)
builder.add_edge("vote", END)
builder.add_edge("annotate", END)

graph = keep_cases(builder.compile(name="PREDICT panel"))
