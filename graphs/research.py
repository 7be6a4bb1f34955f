"""The research loop: queries, searches, relevance, pages, passages and judgement, enough? (AntiHateAgent, section 3).

It needs `begin` before it, and leaves the verdict to its caller.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.context import Context
from tribunal.nodes.antihate.judgement import enough, to_next_turn, weigh
from tribunal.nodes.antihate.pages import choose, fetch, read, to_fetch, to_next_page
from tribunal.nodes.antihate.queries import propose, search, to_search
from tribunal.nodes.state import Research

builder = StateGraph(Research, context_schema=Context)
builder.add_node("propose", propose)
builder.add_node("search", search)
builder.add_node("choose", choose)
builder.add_node("fetch", fetch)
builder.add_node("read", read)
builder.add_node("weigh", weigh)
builder.add_node("enough", enough)
builder.add_edge(START, "propose")
builder.add_conditional_edges(
    "propose", to_search, {"queries": "search", "pages named": "fetch", "no further query": END}
)
builder.add_edge("search", "choose")
builder.add_conditional_edges("choose", to_fetch, {"pages to read": "fetch", "nothing to read": "enough"})
builder.add_edge("fetch", "read")
builder.add_edge("read", "weigh")
builder.add_conditional_edges("weigh", to_next_page, {"next page": "read", "all pages read": "enough"})
builder.add_conditional_edges("enough", to_next_turn, {"not enough yet": "propose", "enough, or turns done": END})

# A turn takes five steps and two more a page; the bounds are those of the settings.
graph = builder.compile(name="research").with_config(recursion_limit=10 * (5 + 2 * 50) + 5)
