"""The hybrid court's own nodes: the case's opening, triage, precedents and review."""
