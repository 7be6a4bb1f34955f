"""The graphs as `langgraph.json` serves them: posts and settings come from clients, who may not set everything."""

import tribunal
from graphs.glossary import graph as court

glossary = tribunal.as_served(court)
