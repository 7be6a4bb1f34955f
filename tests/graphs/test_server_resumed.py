"""A case on the real dev server keeps what it began with: a resume sends the answer, and no context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT

IMPLICIT = "Immigrants: the weeds in our garden."
OURS = ["Fine", "Racist", "Sexist", "Homophobic", "Religious", "Rude"]

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.fixture
def own(operator: Path) -> Path:
    """A policy of the operator's own, with two other names of categories."""
    text = (PROJECT / "prompts" / "policies" / "h-vli.toml").read_text("utf-8")
    path = operator / "open" / "own.toml"
    path.write_text(text.replace("NotHate", OURS[0]).replace("OtherHate", OURS[-1]), "utf-8")
    return path


def edit(category: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "edit",
            "args": {"action": "decide", "args": {"category": category, "note": "gardening"}},
        }
    ]


class Inbox:
    """An Agent Inbox: it sends a run's answer, and nothing else."""

    def __init__(self, client: Any, thread: str) -> None:
        self.client, self.thread = client, thread

    async def answer(self, answer: Any, **more: Any) -> dict[str, Any]:
        sent = {"resume": answer}
        done: dict[str, Any] = await self.client.runs.wait(
            self.thread, "tribunal", command=sent, raise_error=False, **more
        )
        return done


async def waiting(client: Any, own: Path) -> tuple[Inbox, dict[str, Any]]:
    """A case that waits for a reviewer under a policy whose file is gone by now."""
    thread = (await client.threads.create())["thread_id"]
    context = {
        "policy": str(own),
        "review": True,
        "review_rule": ["Rude"],
        "rounds": 1,
        "threshold": 0.0,
    }
    stopped = await client.runs.wait(thread, "tribunal", input={"text": IMPLICIT}, context=context)
    own.write_text(own.read_text("utf-8").replace("Rude", "Changed"), "utf-8")
    own.rename(own.with_name("moved.toml"))
    [interrupt] = stopped["__interrupt__"]
    return Inbox(client, thread), interrupt


async def test_an_answer_alone_keeps_policy_rule_and_rounds(client: Any, own: Path) -> None:
    inbox, interrupt = await waiting(client, own)
    request = interrupt["response_schema"]["$defs"]["Answer"]["properties"]["args"]["anyOf"][0]
    assert request["properties"]["args"]["properties"]["category"]["enum"] == OURS
    again = await inbox.answer([{"type": "response", "args": "is it a quotation?"}])
    [asked] = again["__interrupt__"]  # it comes back to the reviewer
    [shown] = asked["value"]
    assert shown["action_request"]["args"]["category"] == "Rude"
    assert "it was tried again for a reviewer's question" in shown["description"]
    assert {turn["round"] for turn in again["transcript"]} == {0, 1}
    done = await inbox.answer(edit("Fine"))
    assert (done["outcome"]["category"], done["outcome"]["hateful"]) == ("Fine", False)
    assert done["review"]["reason"] == "it was tried again for a reviewer's question"
    assert done["review"]["court"]["category"] == "Rude"
    assert not any("keeps the settings" in warning for warning in done["warnings"])


async def test_other_settings_on_a_resume_are_not_heeded_and_that_is_said(
    client: Any, own: Path
) -> None:
    inbox, _ = await waiting(client, own)
    more = {"context": {"rounds": 3, "review": False, "scheme": "binary"}}
    again = await inbox.answer([{"type": "response", "args": "why?"}], **more)
    assert again["__interrupt__"]
    assert {turn["round"] for turn in again["transcript"]} == {0, 1}
    said = "the case keeps the settings that it began with; given since, and not heeded: review, rounds, scheme"
    assert said in again["warnings"]


@pytest.mark.parametrize(
    ("edited", "says"),
    [
        (
            {"cache": "/tmp/no-such-folder/answers.sqlite"},
            "cache: '/tmp/no-such-folder/answers.sqlite': a client of",
        ),
        (
            {"judge_model": "openai:gpt-4o"},
            "judge_model: 'openai:gpt-4o': a client of this server may not set this",
        ),
        ({"rounds": 99}, "context.settings: rounds: 99"),
        ("rounds=1", "context: holds no settings"),
    ],
)
async def test_an_edited_case_can_t_hold_what_a_client_may_not_set(
    client: Any, edited: Any, says: str
) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "arcade", input={"text": IMPLICIT}, interrupt_before=["judge"])
    held = (await client.threads.get_state(thread))["values"]["context"]
    await client.threads.update_state(
        thread, {"context": {**held, "settings": edited}}, as_node="fast_track"
    )
    done = await client.runs.wait(thread, "arcade", input=None, raise_error=False)
    assert done["__error__"]["message"].startswith(says)


async def test_nor_words_of_a_policy_that_no_file_of_the_operator_s_has(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "arcade", input={"text": IMPLICIT}, interrupt_before=["judge"])
    held = (await client.threads.get_state(thread))["values"]["context"]
    mine = {**held, "policy": held["policy"].replace("OtherHate", "Anything")}
    await client.threads.update_state(thread, {"context": mine})
    done = await client.runs.wait(thread, "arcade", input=None, raise_error=False)
    assert "the case holds other words than the policy 'h-vli'" in done["__error__"]["message"]
    await client.threads.update_state(
        thread, {"context": {**held, "settings": {**held["settings"], "scheme": "binary"}}}
    )
    done = await client.runs.wait(thread, "arcade", input=None)
    # what a client may set, it may set by an edit too
    assert done["outcome"]["category"] == "Hateful"
