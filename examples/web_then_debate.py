"""A pipeline of one's own: the web and perspectives at the same time, PREDICT's debate over both, the court's judge."""

from langgraph.graph import END, START, StateGraph

from tribunal.pieces import (
    Case,
    Context,
    PostInput,
    Ruling,
    checked,
    court_judge,
    panel,
    panel_debate,
    receive,
    web_evidence,
)

builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("web", web_evidence)
builder.add_node("perspectives", panel)
builder.add_node("debate", panel_debate)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "web")
builder.add_edge("receive", "perspectives")
builder.add_edge(["web", "perspectives"], "debate")
builder.add_edge("debate", "judge")
builder.add_edge("judge", END)

graph = checked(builder).compile(name="Web then debate")
