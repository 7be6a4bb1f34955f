"""One call as it is meant, whichever model is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from tribunal.models.answer import Unreadable, read_answer
from tribunal.models.role import Role
from tribunal.prompts import render, variables
from tribunal.prompts.policy import QUESTIONS, Policy
from tribunal.schema import JSON, Post, Scheme


@dataclass(frozen=True)
class Question:
    """One call as it is meant, whichever model is asked. The arguments of `ask` say what its parts are."""

    role: Role[Any]
    form: type[BaseModel]
    system: str
    post: Post
    task: str
    material: JSON
    policy: Policy
    scheme: Scheme
    check: Callable[[Any], None] | None
    repeat: int
    draw: int
    shared: str = ""

    def read(self, said: str) -> Any:
        """The form, filled in from what a model said.

        Raises:
            Unreadable: it isn't that, or doesn't pass the check.
        """
        try:
            value = self.role.plain(said) if self.role.plain else read_answer(said, self.form, post=self.post.text)
            if self.check:
                self.check(value)
        except Unreadable:
            raise
        except ValueError as problem:
            raise Unreadable(str(problem)) from problem
        return value


@lru_cache(maxsize=64)
def standing_instructions(system: str, policy: Policy, scheme: Scheme) -> str:
    """The part that every call of a system shares, and that providers can therefore cache."""
    of_the_policy = {
        "name": policy.name,
        "definition": policy.definition,
        "exclusions": policy.exclusions,
        "groups": ", ".join(policy.protected_groups),
        "categories": policy.categories(scheme),
        "question": QUESTIONS[policy.task],
        "labels": policy.binary,
    }
    prompt = f"system/{system}"
    return render(prompt, {name: of_the_policy[name] for name in variables(prompt)})
