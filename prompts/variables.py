"""The variables that prompts are filled with, beside those that a node gives: of the policy, the run and the case."""

from __future__ import annotations

# The fields of a policy that are told word for word.
POLICY_WORDS = ("name", "definition", "exclusions", "expression", "excuses", "together")
# What a system message may say of the policy, and what a role's prompt may; `ask` fills these in by itself.
OF_THE_SYSTEM = frozenset((*POLICY_WORDS, "groups", "categories", "question", "labels", "language", "own_policy"))
OF_THE_POLICY = frozenset(("expression", "excuses", "together", "category_examples", "kinds", "clauses"))
# What a role's prompt may say of the settings of the run; filled in in the same way.
OF_THE_RUN = frozenset(("label_first", "boxes", "cue_limit", "sure"))
# What a role's prompt may say of what the case holds, so that it has no rule for what isn't there.
OF_THE_CASE = frozenset((
    "image", "text_and_image", "author_language", "has_earlier", "has_appeal", "has_exhibits", "has_passages",
    "has_opinions", "has_precedents", "has_question", "first_passage", "first_precedent",
))  # fmt: skip
FILLED_IN = OF_THE_POLICY | OF_THE_RUN | OF_THE_CASE
