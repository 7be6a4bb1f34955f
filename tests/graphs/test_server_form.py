"""The form of each graph on the real `langgraph dev` server: its groups, and words that an operator edits in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests import PROJECT
from tests.dev_server import dev_server
from tests.graphs.test_server_studio import OURS, SERVED, schemas_of
from tribunal.graphs import GRAPHS
from tribunal.prompts.catalogue import editable_prompts
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set, shipped_prompts
from tribunal.settings.form import prompt_field
from tribunal.settings.names import MAIN_GROUP, MAIN_SETTINGS, PROMPT_GROUP, SECTION_TITLES

POST = {"text": "Immigrants: the weeds in our garden."}
EDITED_JUDGE = shipped_prompts().sources["arcade/judge"] + "\n\nWeigh irony twice."
DEFINITION = "An attack of whatever kind is hate speech here."
WORDS = {"prompt_arcade_judge": EDITED_JUDGE, "policy_definition": DEFINITION}
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.fixture(scope="module")
def open_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose operator lets clients edit prompts and the definition."""
    with dev_server(
        PROJECT, tmp_path_factory.mktemp("open"), allow="prompt_texts,policy_definition"
    ) as address:
        yield address


@pytest.fixture
async def editor(open_url: str) -> Any:
    """A client of that server."""
    async with get_client(url=open_url) as made:
        yield made


async def form_of(client: Any, graph: str) -> dict[str, Any]:
    fields: dict[str, Any] = (await schemas_of(client, graph))["context_schema"]["properties"]
    return fields


def groups_of(form: dict[str, Any]) -> dict[str, list[str]]:
    """The names of the fields of each group, which stand together."""
    listed = [
        (group, list(names)) for group, names in groupby(form, key=lambda name: form[name]["group"])
    ]
    assert len(listed) == len(dict(listed)), "a group is in two places"
    return dict(listed)


@pytest.mark.parametrize("name", SERVED)
async def test_the_form_begins_with_what_people_change_most(editor: Any, name: str) -> None:
    form = await form_of(editor, name)
    print(json.dumps(form, indent=1))  # noqa: T201 (shown with `pytest -s`)
    groups = groups_of(form)
    assert list(groups) == [
        each for each in (MAIN_GROUP, *SECTION_TITLES, PROMPT_GROUP) if each in groups
    ]
    assert groups[MAIN_GROUP] == [each for each in MAIN_SETTINGS if each in form]
    assert groups[MAIN_GROUP][0] == "model"
    assert {"policy", "threshold", "stops"} <= {*groups[MAIN_GROUP]}
    assert name not in GRAPHS or len(groups[MAIN_GROUP]) <= 13
    for group, fields in groups.items():
        for each in fields:
            assert form[each]["title"].startswith(f"{group}: ") is (group != MAIN_GROUP)


@pytest.mark.parametrize("name", GRAPHS)
async def test_studio_edits_prompts_and_the_definition_at_the_nodes_that_use_them(
    editor: Any, name: str
) -> None:
    form = await form_of(editor, name)
    prompts = editable_prompts(name)
    edited = {each for each, field in form.items() if field.get("langgraph_type") == "prompt"}
    assert edited == {*map(prompt_field, prompts), *({"policy_definition"} & form.keys())}
    [assistant] = await editor.assistants.search(graph_id=name, metadata=OURS)
    drawn = [
        await editor.assistants.get_graph(assistant["assistant_id"], xray=each)
        for each in (False, True)
    ]
    nodes = {node["id"] for picture in drawn for node in picture["nodes"]}
    for prompt, shown in prompts.items():
        field = form[prompt_field(prompt)]
        assert (field["type"], field["default"]) == ("string", shown.text)
        assert field["langgraph_nodes"]
        assert {*field["langgraph_nodes"]} <= nodes
    if "policy_definition" in form:
        assert form["policy_definition"]["default"] == load_policy("h-vli").definition


async def test_edited_words_are_in_force_and_in_the_case_s_hashes(editor: Any) -> None:
    thread = (await editor.threads.create())["thread_id"]
    form = await form_of(editor, "arcade")
    unchanged = {name: field["default"] for name, field in form.items() if "default" in field}
    context = {**unchanged, **WORDS, "stops": ["judge"]}
    await editor.runs.wait(thread, "arcade", input=POST, context=context)
    stopped = (await editor.threads.get_state(thread))["tasks"][0]["interrupts"][0]["value"]
    told = "\n".join(turn["content"] for turn in stopped["question"]["prompt"])
    assert "Weigh irony twice." in told
    assert DEFINITION in told
    assert load_policy("h-vli").definition not in told
    done = await editor.runs.wait(thread, "arcade", command={"resume": "go on"})
    assert done["outcome"]["outcome"] == "verdict"
    made = read_prompt_set(None, edits={"arcade/judge": EDITED_JUDGE})
    assert done["prompts"] == {"name": "tribunal+edited", "sha": made.sha}
    assert done["policy"] == {"name": "h-vli", "sha": load_policy("h-vli", DEFINITION).sha}
    assert not [each for each in done["warnings"] if "have changed" in each]
    settings = (await editor.threads.get_state(thread))["values"]["context"]["settings"]
    assert settings["prompt_texts"] == {"arcade/judge": EDITED_JUDGE}
    assert settings["policy_definition"] == DEFINITION


async def test_a_form_that_comes_back_unchanged_is_no_edit(editor: Any) -> None:
    form = await form_of(editor, "arcade")
    context = {name: field["default"] for name, field in form.items() if "default" in field}
    done = await editor.runs.wait(None, "arcade", input=POST, context=context)
    assert done["prompts"] == shipped_prompts().dump()
    assert done["policy"]["sha"] == load_policy("h-vli").sha


async def test_a_prompt_with_an_unknown_variable_is_refused_by_its_name(editor: Any) -> None:
    context = {"prompt_arcade_judge": EDITED_JUDGE + "{{ transcirpt }}"}
    done = await editor.runs.wait(None, "arcade", input=POST, context=context, raise_error=False)
    said = done["__error__"]["message"]
    assert said.startswith("prompt_texts: arcade/judge, line ")
    assert "there is no 'transcirpt' here; did you mean transcript" in said


@pytest.mark.parametrize("name", WORDS)
async def test_a_server_of_strangers_shows_no_words_and_takes_none(client: Any, name: str) -> None:
    form = await form_of(client, "arcade")
    assert not [each for each, field in form.items() if field.get("langgraph_type") == "prompt"]
    setting = "prompt_texts" if name.startswith("prompt_") else name
    for context in (
        {name: WORDS[name]},
        {setting: WORDS[name] if setting == name else {"arcade/judge": EDITED_JUDGE}},
    ):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await client.runs.wait(None, "arcade", input=POST, context=context)
        assert refused.value.response.status_code == 422
        said = refused.value.response.json()["detail"]
        assert said.startswith(setting)
        assert f"TRIBUNAL_ALLOW={setting}" in said
