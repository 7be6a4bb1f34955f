"""A round of MV-Debate: answers, scores and a reflection on them, second answers, the gate (paper, Algorithm 1).

The history and the Summary are its caller's.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.mv_debate.scoring import (
    close_round,
    reflect_on_answers,
    score_answers,
    score_revisions,
    select_views,
    to_revise,
)
from tribunal.nodes.mv_debate.views import (
    answer_as_view,
    call_round,
    compare_answers,
    revise_answer,
    to_control,
    to_views,
)
from tribunal.nodes.outputs import RoundOutput
from tribunal.nodes.state import Views
from tribunal.settings.context import Context

builder = StateGraph(Views, context_schema=Context, output_schema=RoundOutput)
builder.add_node("call_round", call_round)
builder.add_node("view", answer_as_view)
builder.add_node("compare", compare_answers)
builder.add_node("score", score_answers)
builder.add_node("reflect", reflect_on_answers)
builder.add_node("select", select_views)
builder.add_node("revise", revise_answer)
builder.add_node("rescore", score_revisions)
builder.add_node("close", close_round)
builder.add_edge(START, "call_round")
builder.add_conditional_edges("call_round", to_views, {"each at once": "view", "budget spent": END})
builder.add_edge("view", "compare")
builder.add_conditional_edges(
    "compare",
    to_control,
    {"answers differ": "score", "with reflection": "reflect", "all agree, or too few": END},
)
builder.add_edge("score", "select")
builder.add_edge("reflect", "select")
builder.add_conditional_edges(
    "select",
    to_revise,
    {"the top k": "revise", "revised": "rescore", "no reflection": "close", "no answer": END},
)
builder.add_edge("revise", "rescore")
builder.add_edge("rescore", "close")
builder.add_edge("close", END)

graph = compile_subgraph(builder, "debate_round")
