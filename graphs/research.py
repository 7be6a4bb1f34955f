"""The research loop: queries, searches, relevance, pages, passages and judgement, enough? (AntiHateAgent, section 3).

It needs `begin` before it, and leaves the verdict to its caller.
"""

from langgraph.graph import END, START, StateGraph

from tribunal.graphs.subgraph import compile_subgraph
from tribunal.nodes.antihate.judgement import check_sufficiency, to_next_turn, weigh_page
from tribunal.nodes.antihate.pages import (
    choose_hits,
    fetch_pages,
    read_next_page,
    to_fetch,
    to_next_page,
)
from tribunal.nodes.antihate.queries import propose_queries, search_queries, to_search
from tribunal.nodes.state import ResearchState
from tribunal.settings.context import Context

builder = StateGraph(ResearchState, context_schema=Context)
builder.add_node("propose", propose_queries)
builder.add_node("search", search_queries)
builder.add_node("choose", choose_hits)
builder.add_node("fetch", fetch_pages)
builder.add_node("read", read_next_page)
builder.add_node("weigh", weigh_page)
builder.add_node("enough", check_sufficiency)
builder.add_edge(START, "propose")
builder.add_conditional_edges(
    "propose", to_search, {"queries": "search", "pages named": "fetch", "no further query": END}
)
builder.add_edge("search", "choose")
builder.add_conditional_edges(
    "choose", to_fetch, {"pages to read": "fetch", "nothing to read": "enough"}
)
builder.add_edge("fetch", "read")
builder.add_edge("read", "weigh")
builder.add_conditional_edges(
    "weigh", to_next_page, {"next page": "read", "all pages read": "enough"}
)
builder.add_conditional_edges(
    "enough", to_next_turn, {"not enough yet": "propose", "enough, or turns done": END}
)

# A turn takes five steps and two more a page; the bounds are those of the settings.
graph = compile_subgraph(builder, "research", recursion_limit=10 * (5 + 2 * 50) + 5)
