"""The public interface for composing your own graph: its pieces, and all that they need (docs/composing.md).

    from tribunal.pieces import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, receive

    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    builder.add_node("receive", receive)
    …
    graph = checked(builder).compile(name="mine")

Pieces, which are nodes: `receive`, `open_case`, `triage`, `scan`, `web_evidence`, `panel`, `panel_debate`,
`fast_trial`, `deep_trial`, `court_judge`, `find_precedents`, `review`. Routers, for conditional edges: `to_trial` after
the triage, `to_track` after the scan, `to_judge` after the trial, `to_review` after the judge, `to_retrial` after the
review. Makers of pieces: `piece` for your own function or graph, `evidence_from` for
a retriever or a tool of LangChain's, `seat` for an agent (a `SeatNode`). The ends of a case: `verdict`, `refusal`. The
door to the models: `ask` with a `Role`, which gives an `Answer`, in a node that `agent` makes; `decision_form`; an
`OwnRequest` in a published model's own layout. The settings in force: `context_of`, `policy_of`.
Words of others in a prompt, quoted: `quote`, `listing`, `entries` of `Entry`, `together`, as `Material`; words of one's
own: `ours`. Your own system: `System`, `received_by`, `settings_of`. The contract: `checked`, `contract_of`,
`Contract`, `Channel`, `WrongComposition`. The state and what passes through it: `Case`, `PostInput`, `Ruling`,
`Context`, `Policy`, `Post`, `Evidence`, `EvidenceStance`, `Precedent`, `Turn`, `Step`.
"""

from tribunal.graphs.contracts import (
    Channel,
    Contract,
    WrongComposition,
    checked,
    contract_of,
    piece,
)
from tribunal.graphs.debate import graph as panel_debate
from tribunal.graphs.deep_dive import graph as deep_trial
from tribunal.graphs.fast_track import graph as fast_trial
from tribunal.graphs.perspectives import graph as panel
from tribunal.graphs.web import graph as web_evidence
from tribunal.models.ask import Answer, ask
from tribunal.models.role import OwnRequest, Role
from tribunal.nodes.agents import agent
from tribunal.nodes.arcade.gatekeeper import scan_post as scan
from tribunal.nodes.arcade.gatekeeper import to_track
from tribunal.nodes.arcade.judge import judge_debate as court_judge
from tribunal.nodes.court.case import find_precedents, open_case, to_judge, to_review, to_trial
from tribunal.nodes.court.case import triage_post as triage
from tribunal.nodes.court.review import review_case as review
from tribunal.nodes.court.review import to_retrial
from tribunal.nodes.forms import decision_form
from tribunal.nodes.intake import receive, received_by
from tribunal.nodes.outputs import Ruling
from tribunal.nodes.state import Case, PostInput
from tribunal.pieces.retrieved import evidence_from
from tribunal.pieces.seats import SeatNode, refusal, seat, verdict
from tribunal.prompts.marks import Entry, Material, entries, listing, ours, quote, together
from tribunal.prompts.policy import Policy, policy_of
from tribunal.schema import Evidence, EvidenceStance, Post, Precedent, Step, Turn
from tribunal.settings.context import Context, context_of, settings_of
from tribunal.settings.systems import System

__all__ = [
    "Answer",
    "Case",
    "Channel",
    "Context",
    "Contract",
    "Entry",
    "Evidence",
    "EvidenceStance",
    "Material",
    "OwnRequest",
    "Policy",
    "Post",
    "PostInput",
    "Precedent",
    "Role",
    "Ruling",
    "SeatNode",
    "Step",
    "System",
    "Turn",
    "WrongComposition",
    "agent",
    "ask",
    "checked",
    "context_of",
    "contract_of",
    "court_judge",
    "decision_form",
    "deep_trial",
    "entries",
    "evidence_from",
    "fast_trial",
    "find_precedents",
    "listing",
    "open_case",
    "ours",
    "panel",
    "panel_debate",
    "piece",
    "policy_of",
    "quote",
    "receive",
    "received_by",
    "refusal",
    "review",
    "scan",
    "seat",
    "settings_of",
    "to_judge",
    "to_retrial",
    "to_review",
    "to_track",
    "to_trial",
    "together",
    "triage",
    "verdict",
    "web_evidence",
]
