"""Who can be asked, by name: the seats that have models and temperatures, and the views of `mv_debate`."""

from __future__ import annotations

SEATS = (
    "gatekeeper",
    "prosecutor",
    "defender",
    "judge",
    "classifier",
    "perspective",
    "debater",
    "annotator",
    "researcher",
    "triage",
    "reflection",
    "summary",
)
# Seats of which there are several, told apart after a colon: perspective:kold, view:surface, agent:2.
KINDS = ("perspective", "debater", "view", "agent")
# The views of `mv_debate`: a name, and its title; its words are prompts/mv_debate/view_NAME.md.
VIEWS = {
    "surface": "Surface Analyst",
    "deep": "Deep Reasoner",
    "contrast": "Modality Contrast",
    "context": "Social Contextualist",
}
