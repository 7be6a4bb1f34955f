"""The form of a graph's settings: what Studio and other front ends of LangGraph read in the JSON schema of a context.

Of each field:

    group                      its group: "Main settings", a section of docs/settings.md, or "Prompts"
    langgraph_nodes            the nodes that read it (LangGraph Studio)
    langgraph_type             "prompt" for words that models are shown (LangGraph Studio)
    __template_metadata__      {"kind": "llm"} for the name of a model (templates of LangGraph)
    metadata.x_oap_ui_config   select, slider, number, boolean, textarea, text or json (Open Agent Platform)

All follow from the type and bounds of the field. Studio edits only texts at the top of the form, so each prompt of a
graph is a field there: `prompt_arcade_judge`. In settings they are one table, `prompt_texts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tribunal.core.calls import JSON
from tribunal.settings.names import MAIN_GROUP, MAIN_SETTINGS, PROMPT_GROUP, nodes_running
from tribunal.settings.setting import DECLARED, settings_in_order
from tribunal.trust import MODEL_SETTINGS, is_allowed, settings_come_from_clients

PROMPT_TEXTS = "prompt_texts"
DEFINITION = "policy_definition"
_WIDEST_SLIDER = 100  # a wider range is a number to type


def arrange_form(fields: Mapping[str, JSON], graph: str) -> dict[str, JSON]:
    """Return the fields of a form in groups, with the keys that front ends read.

    Args:
        fields: the JSON schema of each setting by name.
        graph: the name of the graph; empty for the settings of all graphs.
    """
    shown = {
        name: form
        for name, form in fields.items()
        if not (DECLARED[name].words and _is_closed(name))
    }
    if graph and DEFINITION in shown:
        shown[DEFINITION] = {**shown[DEFINITION], "default": _catalogue().shipped_definition()}
    prompts = _prompt_fields(graph) if graph and PROMPT_TEXTS in shown else {}
    if prompts:
        del shown[PROMPT_TEXTS]
    first = [name for name in MAIN_SETTINGS if name in shown]
    others = [
        each.name for each in settings_in_order() if each.name in shown and each.name not in first
    ]
    arranged = {name: {**shown[name], "group": MAIN_GROUP} for name in first}
    for name in others:
        section = DECLARED[name].section
        arranged[name] = {
            **shown[name],
            "title": f"{section}: {DECLARED[name].title}",
            "group": section,
        }
    arranged |= prompts
    for name, form in arranged.items():
        form.update(_front_end_keys(name, form))
    return arranged


def _is_closed(name: str) -> bool:
    """Return whether a client of this server may not set it."""
    return settings_come_from_clients() and not is_allowed(name, None)


def _catalogue() -> Any:
    # On a floor above, and imported only when somebody asks.
    return import_module("tribunal.prompts.catalogue")


def prompt_field(prompt: str) -> str:
    """Return the field of a prompt in a form: `prompt_arcade_judge` for `arcade/judge`."""
    return f"prompt_{prompt.replace('/', '_')}"


def _prompt_fields(graph: str) -> dict[str, JSON]:
    fields: dict[str, JSON] = {}
    for name, prompt in _catalogue().editable_prompts(graph).items():
        said = f"{prompt.says[:1].upper()}{prompt.says[1:]}. A template: keep the parts in braces."
        fields[prompt_field(name)] = {
            "type": "string",
            "title": f"{PROMPT_GROUP}: {name}",
            "description": f"{said} Default: the shipped text.",
            "default": prompt.text,
            "group": PROMPT_GROUP,
            **(
                {"langgraph_nodes": nodes_running(prompt.functions, graph)}
                if prompt.functions
                else {}
            ),
        }
    return fields


def _front_end_keys(name: str, form: JSON) -> JSON:
    control = _control_of(
        next((each for each in form.get("anyOf", ()) if each.get("type") != "null"), form)
    )
    keys: JSON = {}
    if control["type"] == "text" and (name not in DECLARED or DECLARED[name].words):
        control = {"type": "textarea"}
        keys["langgraph_type"] = "prompt"
    elif control["type"] == "text" and name in MODEL_SETTINGS:
        keys["__template_metadata__"] = {"kind": "llm"}
    said = {each: form[each] for each in ("default", "description") if each in form}
    return {**keys, "metadata": {"x_oap_ui_config": {**control, **said}}}


def _control_of(kind: JSON) -> JSON:
    """Return the control that edits a value of this type."""
    if "enum" in kind:
        return {
            "type": "select",
            "options": [{"label": str(each), "value": each} for each in kind["enum"]],
        }
    if kind.get("type") == "boolean":
        return {"type": "boolean"}
    if kind.get("type") in ("integer", "number"):
        bounds = {"min": kind.get("minimum"), "max": kind.get("maximum")}
        known = {name: value for name, value in bounds.items() if value is not None}
        if len(known) == len(bounds) and known["max"] - known["min"] <= _WIDEST_SLIDER:
            return {"type": "slider", **known, "step": 1 if kind["type"] == "integer" else 0.01}
        return {"type": "number", **known}
    return {"type": "text" if kind.get("type") == "string" else "json"}


def collect_edits(given: Mapping[str, Any], graph: str) -> dict[str, Any]:
    """Return settings whose edited prompts are in `prompt_texts`, without the words that a form has unedited.

    Front ends send every field of a form back, also the unchanged fields.

    Args:
        given: settings, which may be the fields of a graph's form.
        graph: the name of the graph; empty for the settings of all graphs, whose form shows no prompts.
    """
    settings = dict(given)
    if not graph:
        return settings
    if settings.get(DEFINITION) is not None and _is_same(
        settings[DEFINITION], _catalogue().shipped_definition()
    ):
        del settings[DEFINITION]
    fields = [name for name in settings if name.startswith("prompt_") and name != PROMPT_TEXTS]
    if not fields:
        return settings
    texts = {
        prompt_field(name): (name, text)
        for name, text in _catalogue().prompt_sources(graph).items()
    }
    edits = {}
    for field in fields:
        if field in texts:
            name, text = texts[field]
            value = settings.pop(field)
            if value is not None and not _is_same(value, text):
                edits[name] = value
    if edits:
        settings[PROMPT_TEXTS] = {**settings.get(PROMPT_TEXTS, {}), **edits}
    return settings


def _is_same(value: object, text: str) -> bool:
    """Return whether a form holds the words that it began with, or none."""
    return isinstance(value, str) and value.replace("\r\n", "\n").strip() in ("", text.strip())


def is_form_field(name: str, graph: str) -> bool:
    """Return whether a name is that of a prompt in the form of a graph; empty: of no graph of its own."""
    return (
        bool(graph)
        and name.startswith("prompt_")
        and name in map(prompt_field, _catalogue().prompt_sources(graph))
    )
