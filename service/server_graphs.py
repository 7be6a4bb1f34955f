"""Our graphs as a LangGraph server offers them to its clients, each by its name, for `langgraph.json`."""

from tribunal.docket.on_a_server import as_served
from tribunal.graphs import graph

tribunal = as_served(graph("tribunal"))
arcade = as_served(graph("arcade"))
multiround = as_served(graph("multiround"))
predict = as_served(graph("predict"))
antihate = as_served(graph("antihate"))
mv_debate = as_served(graph("mv_debate"))
baseline = as_served(graph("baseline"))
self_consistency = as_served(graph("self_consistency"))
symmetric_debate = as_served(graph("symmetric_debate"))
