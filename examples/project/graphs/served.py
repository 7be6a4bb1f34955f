"""The graphs as `langgraph.json` serves them: posts and settings come from clients, who may not set everything."""

from graphs.glossary import graph as court

import tribunal

glossary = tribunal.as_served(court)
