"""Cases of the real dev server are kept where its operator says so, and go on by the texts that they began with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.cases.test_terms_of_a_case import Terms
from tribunal.docket.case_search import CaseFilter, find_cases, load_case
from tribunal.docket.record_rows import text_of
from tribunal.store.engine import Store

POST = "Immigrants: the weeds in our zwetschgen garden."


async def kept(operator: Path, post_id: str) -> list[dict[str, Any]]:
    store = await Store.open(f"sqlite:///{operator / 'data' / 'service.sqlite'}")
    try:
        found = [
            await load_case(store, row["id"])
            for row in await find_cases(store, CaseFilter(post_id=post_id))
        ]
        return [{**row, "text": await text_of(store, row["policy_sha"])} for row in found]
    finally:
        await store.close()


@pytest.mark.server
@pytest.mark.xdist_group("server")
async def test_what_studio_decides_is_kept(client: Any, operator: Path) -> None:
    thread = (await client.threads.create())["thread_id"]
    for post_id in ("studio-1", "studio-2"):  # one after the other on the same thread
        done = await client.runs.wait(thread, "arcade", input={"text": POST, "post_id": post_id})
        [case] = await kept(operator, post_id)
        assert (case["via"], case["graph"], case["post"]) == (
            "studio",
            "arcade",
            {"text": POST, "post_id": post_id},
        )
        assert case["record"]["explanation"] == done["outcome"]["explanation"]
        assert "H-VLI" in case["text"]


@pytest.mark.server
@pytest.mark.xdist_group("server")
async def test_a_case_waits_and_is_decided_by_the_texts_it_began_with(
    client: Any, operator: Path
) -> None:
    terms = Terms(operator / "open" / "kept")
    terms.line_up.write_text('[seats]\njudge = "rehearsal"\n')
    thread = (await client.threads.create())["thread_id"]
    settings = {"policy": terms.policy, "prompts": terms.prompts, "line_up": terms.line_up}
    context = {name: str(path) for name, path in settings.items()} | {
        "review": True,
        "review_rule": ["all"],
    }
    context["threshold_file"] = str(terms.threshold)
    run = {"text": POST, "post_id": "studio-3"}
    stopped = await client.runs.wait(thread, "tribunal", input=run, context=context)
    assert stopped["__interrupt__"]
    [pending] = await kept(operator, "studio-3")
    assert (pending["outcome"], pending["record"]["review"]["court"]["category"]) == (
        "pending",
        "Rude",
    )
    terms.delete()
    again = await client.runs.wait(
        thread, "tribunal", command={"resume": [{"type": "response", "args": "a quotation?"}]}
    )
    assert again["__interrupt__"], again
    assert not [each for each in again["warnings"] if "changed" in each]
    said = {
        "type": "edit",
        "args": {"action": "decide", "args": {"category": "Rude", "note": "so"}},
        "reviewer": "kim",
    }
    done = await client.runs.wait(thread, "tribunal", command={"resume": [said]})
    assert done["outcome"]["category"] == "Rude"
    [decided] = await kept(operator, "studio-3")
    assert (decided["id"], decided["outcome"], decided["reviewer"]) == (
        pending["id"],
        "verdict",
        "kim",
    )
    assert '"Rude"' in decided["text"]


@pytest.mark.server
@pytest.mark.xdist_group("server")
async def test_a_client_puts_no_texts_of_its_own_into_a_case(client: Any, operator: Path) -> None:
    line_up = operator / "open" / "mine.toml"
    line_up.write_text('[seats]\njudge = "rehearsal"\n')
    thread = (await client.threads.create())["thread_id"]
    how = {"context": {"line_up": str(line_up)}, "interrupt_before": ["judge"]}
    await client.runs.wait(thread, "arcade", input={"text": POST}, **how)
    held = (await client.threads.get_state(thread))["values"]["context"]
    mine = {**held, "line_up": '[seats]\njudge = "openai:theirs"\n'}
    await client.threads.update_state(thread, {"context": mine})
    done = await client.runs.wait(thread, "arcade", input=None, raise_error=False)
    assert "the case holds other words than the line-up" in done["__error__"]["message"]


SERVER = """
import asyncio, json, sys
from tribunal.settings.context import context_from
from tribunal.prompts.policy import policy_in_force, policy_of
from tribunal.trust import distrust_input

distrust_input()
name, text = sys.argv[1], sys.stdin.read()
state = {"context": {"settings": {"policy": name}, "policy": text}} if text else {}
made = asyncio.run(policy_of(state) if text else policy_in_force(name))
print(json.dumps(made.source))
"""


@pytest.mark.long
def test_a_server_that_is_started_anew_knows_what_its_operator_s_files_held(tmp_path: Path) -> None:
    own = tmp_path / "house.toml"
    shutil.copy(PROJECT / "prompts" / "policies" / "h-vli.toml", own)

    def server(text: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TRIBUNAL_ALLOW": f"policy={own}"}
        return subprocess.run(
            [sys.executable, "-c", SERVER, str(own)],
            input=text,
            capture_output=True,
            text=True,
            env=environment,
        )

    before = json.loads(server("").stdout)
    own.unlink()
    assert json.loads(server(before).stdout) == before
    refused = server(before.replace("OtherHate", "Anything"))
    assert "the case holds other words than the policy" in refused.stderr
