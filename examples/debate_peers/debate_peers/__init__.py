"""Peers of a debate: DMAD, ChatEval, DebUnc, and one agent that corrects itself."""
