"""The agents, and the state that they share."""
