"""MV-Debate's nodes: views, the Judge and the Reflection with the gate, and the Summary."""
