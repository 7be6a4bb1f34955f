"""Words that are edited in a form: the models are shown them, a record names them, and a resume keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.types import Command

import tribunal
from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tests.golden.test_requests import CASES, asked
from tests.marked import first_then_long
from tests.untyped import builder
from tribunal import trust
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS
from tribunal.models.role import Question
from tribunal.prompts.catalogue import CATALOGUE, editable_prompts
from tribunal.prompts.policy import load_policy
from tribunal.prompts.sets import read_prompt_set, shipped_prompts
from tribunal.schema import Record
from tribunal.settings.base import EveryGraph
from tribunal.settings.context import Context, context_from, settings_of
from tribunal.settings.form import prompt_field
from tribunal.settings.graph_settings import SETTINGS

POST = "Immigrants: the weeds in our garden."
DEFINITION = 'An attack "of whatever kind" is\nhate, also {{ in braces }}.'
SHIPPED_DEFINITION = load_policy("h-vli").definition
DEFINED = SETTINGS["policy_definition"].graphs
EDITED_JUDGE = shipped_prompts().sources["arcade/judge"] + "\n\nWeigh irony twice."


# Modes that no page of tests/golden has.
MORE_CASES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "tribunal": [("tribunal/deep", {"mode": "no-search"})],
    "self_consistency": [("self_consistency", {"mode": "zero-shot"})],
}


def form_of(graph: str) -> dict[str, Any]:
    """The fields of a graph's form."""
    fields: dict[str, Any] = settings_of(graph).model_json_schema()["properties"]
    return fields


def edited(names: Iterable[str]) -> dict[str, str]:
    """Each of these prompts of ours, with a line of one's own."""
    return {name: f"{shipped_prompts().sources[name]}\n\nOwn words: {name}." for name in names}


@pytest.mark.parametrize("graph", first_then_long(GRAPHS, shown=2))
async def test_each_prompt_of_a_form_is_asked_with_at_the_nodes_that_the_form_names(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = form_of(graph)
    seen = set[tuple[str, str]]()
    write_task = Question.write_task

    def noted(self: Question, **how: Any) -> str:
        node = get_config()["metadata"]["langgraph_node"]
        seen.update((prompt, node) for prompt in (self.role.prompt, f"system/{self.role.system}"))
        return write_task(self, **how)

    monkeypatch.setattr(Question, "write_task", noted)
    prompts = editable_prompts(graph)
    cases: list[tuple[str, dict[str, Any]]] = [
        (name, {}) for name, (of, _, _) in CASES.items() if of == graph
    ]
    for name, more in [*cases, *MORE_CASES.get(graph, [])]:
        for part, request in (await asked(name, "", **more, prompt_texts=edited(prompts))).items():
            system, user = (str(message["content"]) for message in request.body["messages"])
            assert "Own words: system/" in system, part
            assert "Own words: " in user, part
    assert {prompt for prompt, _ in seen} == prompts.keys()
    for prompt, node in seen:
        nodes = form[prompt_field(prompt)]["langgraph_nodes"]
        assert node in {each.rpartition(":")[2] for each in nodes}, (prompt, node)
    fields = {name for name, field in form.items() if field["group"] == "Prompts"}
    assert fields == set(map(prompt_field, prompts))


@pytest.mark.parametrize(
    "name", first_then_long([name for name in CASES if CASES[name][0] in DEFINED], shown=2)
)
async def test_an_edited_definition_takes_the_place_of_the_policy_s(name: str) -> None:
    graph, settings, _ = CASES[name]
    shipped = (
        SHIPPED_DEFINITION if "task" not in settings else load_policy(settings["task"]).definition
    )
    usual = await asked(name, "")
    sent = await asked(name, "", policy_definition=DEFINITION)
    assert any(DEFINITION in request.text for request in sent.values())
    assert not any(shipped in request.text for request in sent.values())
    # A policy of one's own is shown to researchers too; and each store of precedents has dates of its own.
    if graph != "antihate" and not {"web", "precedents"} & settings.keys():
        assert {
            part: request.text.replace(DEFINITION, shipped) for part, request in sent.items()
        } == {part: request.text for part, request in usual.items()}


async def test_predict_which_tells_no_definition_takes_none() -> None:
    assert set(GRAPHS) - {*DEFINED} == {"predict"}
    with pytest.raises(BadInput, match=r"^policy_definition: .* and predict has no use for it"):
        await tribunal.ajudge(POST, graph="predict", policy_definition=DEFINITION)


async def judged(**settings: Any) -> Record:
    async with ScriptedServer(court_script()) as server:
        return await decide(server, POST, **settings)


@pytest.mark.parametrize("policy", ["h-vli", "moderations"])
async def test_a_record_names_the_words_that_a_case_was_decided_by(policy: str) -> None:
    edits = {"arcade/judge": EDITED_JUDGE}
    usual = await judged(policy=policy)
    record = await judged(policy=policy, prompt_texts=edits, policy_definition=DEFINITION)
    assert usual.prompts == shipped_prompts().dump()
    assert record.prompts == {
        "name": "tribunal+edited",
        "sha": read_prompt_set(None, edits=edits).sha,
    }
    assert record.prompts["sha"] != usual.prompts["sha"]
    assert usual.policy == {"name": policy, "sha": load_policy(policy).sha}
    assert record.policy == {"name": policy, "sha": load_policy(policy, DEFINITION).sha}
    assert record.policy["sha"] != usual.policy["sha"]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_form_that_comes_back_unchanged_sets_nothing(graph: str) -> None:
    form = form_of(graph)
    kind = settings_of(graph)
    words = {
        name: field["default"]
        for name, field in form.items()
        if field.get("langgraph_type") == "prompt"
    }
    assert words
    for sent in (
        words,
        dict.fromkeys(words, ""),
        {name: f"{text}\r\n" for name, text in words.items()},
    ):
        assert kind(**sent).model_fields_set == {"policy"}
    everything = {name: field["default"] for name, field in form.items() if "default" in field}
    assert dict(kind(**everything)) == dict(kind())


def test_the_policy_in_force_keeps_its_own_definition_when_the_shipped_one_comes_back() -> None:
    form = form_of("arcade")
    settings = settings_of("arcade")(
        policy="moderations", policy_definition=form["policy_definition"]["default"]
    )
    assert "policy_definition" not in settings.model_fields_set


def test_an_edited_prompt_takes_precedence_over_a_folder(tmp_path: Any) -> None:
    folder = tmp_path / "mine" / "arcade"
    folder.mkdir(parents=True)
    for name in ("judge", "gatekeeper"):
        (folder / f"{name}.md").write_text(
            shipped_prompts().sources[f"arcade/{name}"] + "\n\nOf the folder."
        )
    made = read_prompt_set(str(tmp_path / "mine"), edits={"arcade/judge": EDITED_JUDGE})
    assert made.name == "mine+edited"
    assert made.sources["arcade/judge"] == EDITED_JUDGE
    assert made.sources["arcade/gatekeeper"].endswith("Of the folder.")


@pytest.mark.parametrize(
    ("prompt", "words", "says"),
    [
        (
            "arcade/judge",
            f"{EDITED_JUDGE}\n{{{{ transcirpt }}}}",
            "there is no 'transcirpt' here; did you mean transc",
        ),
        (
            "arcade/judge",
            "Decide.",
            "leaves out categories, deep, hateful, not_hate, transcript; put it in, or write",
        ),
        ("arcade/judge", f"{EDITED_JUDGE}{{% if %}}", "line "),
        ("arcade/judge", f"{EDITED_JUDGE}{{{{ transcript|upper }}}}", "line "),
        (
            "system/court",
            "{{ defintion }}",
            "there is no 'defintion' here; did you mean definition",
        ),
        ("arcade/jdge", "Decide.", "no prompt is called so; did you mean arcade/judge"),
    ],
)
async def test_words_that_no_prompt_can_have_are_refused_before_any_call(
    prompt: str, words: str, says: str
) -> None:
    async with ScriptedServer(court_script()) as server:
        with pytest.raises(BadInput) as refused:
            await decide(server, POST, prompt_texts={prompt: words})
    assert str(refused.value).startswith(f"prompt_texts: {prompt}")
    assert says in str(refused.value)
    assert not server.requests


async def test_braces_in_a_definition_are_words() -> None:
    sent = await asked("arcade/fast", "", policy_definition="{{ secret }} {% if %}")
    assert all("{{ secret }} {% if %}" in request.text for request in sent.values())


@pytest.fixture
def a_server(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A server of ours that clients ask."""
    monkeypatch.setattr(trust, "_serving", False)
    trust.distrust_input()
    monkeypatch.delenv(trust.ALLOW, raising=False)
    return monkeypatch


WORDS = [("prompt_texts", {"arcade/judge": EDITED_JUDGE}), ("policy_definition", DEFINITION)]


@pytest.mark.parametrize(("name", "value"), WORDS)
async def test_a_client_may_edit_words_only_where_the_operator_allows_it(
    name: str, value: Any, a_server: pytest.MonkeyPatch
) -> None:
    assert not [
        each for each, field in form_of("arcade").items() if field.get("langgraph_type") == "prompt"
    ]
    with pytest.raises(
        BadInput, match=f"^{name}.* a client of this server may not set this.*TRIBUNAL_ALLOW={name}"
    ):
        await tribunal.ajudge(POST, graph="arcade", **{name: value})
    a_server.setenv(trust.ALLOW, name)
    shown = {
        field["group"]
        for field in form_of("arcade").values()
        if field.get("langgraph_type") == "prompt"
    }
    assert shown == {"Prompts" if name == "prompt_texts" else "Main settings"}
    assert (await tribunal.ajudge(POST, graph="arcade", **{name: value})).outcome == "verdict"


@pytest.mark.parametrize("serving", [False, True])
async def test_a_resume_keeps_the_edited_words(serving: bool, a_server: pytest.MonkeyPatch) -> None:
    a_server.setenv(trust.ALLOW, "prompt_texts,policy_definition")
    a_server.setattr(trust, "_serving", serving)
    graph = builder("arcade").compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    settings = {
        "prompt_arcade_judge": EDITED_JUDGE,
        "policy_definition": DEFINITION,
        "stops": ["judge"],
    }
    stopped = await graph.ainvoke({"text": POST}, thread, context=settings_of("arcade")(**settings))
    question = stopped["__interrupt__"][0].value["question"]
    told = "\n".join(turn["content"] for turn in question["prompt"])
    assert "Weigh irony twice." in told
    assert DEFINITION in told
    done = await graph.ainvoke(Command(resume="go on"), thread)
    assert done["outcome"]["outcome"] == "verdict"
    assert done["prompts"]["sha"] == read_prompt_set(None, edits={"arcade/judge": EDITED_JUDGE}).sha
    assert not [each for each in done["warnings"] if "have changed" in each]
    held = (await graph.aget_state(thread)).values["context"]["settings"]
    assert held["policy_definition"] == DEFINITION
    assert held["prompt_texts"] == {"arcade/judge": EDITED_JUDGE}


def test_every_prompt_that_a_seat_is_asked_with_is_in_the_form_of_a_graph() -> None:
    offered = {name for graph in GRAPHS for name in editable_prompts(graph)}
    no_graphs = {"explained/plain", "exam/post"}  # of letters and of `tribunal doctor`
    assert {name for name, part in CATALOGUE.items() if part.seat} - no_graphs <= offered


@pytest.mark.parametrize("graph", [*GRAPHS, ""])
def test_a_form_says_how_each_field_is_edited_by_its_type_and_bounds(graph: str) -> None:
    kind: type[EveryGraph] = settings_of(graph) if graph else Context
    form = kind.model_json_schema()["properties"]
    for name, field in form.items():
        control = field["metadata"]["x_oap_ui_config"]
        assert control["description"] == field["description"]
        assert control.get("default") == field.get("default")
        shape = next((each for each in field.get("anyOf", []) if each["type"] != "null"), field)
        if "enum" in shape:
            assert (control["type"], [each["value"] for each in control["options"]]) == (
                "select",
                shape["enum"],
            )
        elif control["type"] == "slider":
            assert (control["min"], control["max"]) == (shape["minimum"], shape["maximum"])
            assert control["step"] == (1 if shape["type"] == "integer" else 0.01)
        else:
            types = {
                "boolean": "boolean",
                "integer": "number",
                "number": "number",
                "string": "text",
            }
            words = field.get("langgraph_type") == "prompt"
            assert control["type"] == ("textarea" if words else types.get(shape["type"], "json")), (
                name
            )
    models = {
        name
        for name, field in form.items()
        if field.get("__template_metadata__") == {"kind": "llm"}
    }
    assert models == {"model", "judge_model", "aux_model", "triage"} & form.keys()
    assert form["threshold"]["metadata"]["x_oap_ui_config"]["type"] == "slider"
    assert context_from({}).threshold is None
