"""The settings of a run: what is said of each is so, and a wrong one names the way out."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS
from tribunal.settings import graph_settings as settings
from tribunal.settings.context import Context, context_from
from tribunal.settings.graph_settings import SETTINGS, describe_setting, name_graphs
from tribunal.settings.names import MAIN_GROUP, MAIN_SETTINGS, POLICIES, RENAMED, VIEWS

FIELDS = Context.model_fields


def test_the_form_has_every_setting_in_its_group_the_main_ones_first() -> None:
    form = Context.model_json_schema()["properties"]
    assert form.keys() == FIELDS.keys() == SETTINGS.keys()
    for name, field in form.items():
        group = field["group"]
        assert group == (MAIN_GROUP if name in MAIN_SETTINGS else SETTINGS[name].section)
        assert field["title"] == (
            SETTINGS[name].title if name in MAIN_SETTINGS else f"{group}: {SETTINGS[name].title}"
        )
        assert field["description"] == describe_setting(name)
    rarer = [name for name in SETTINGS if name not in MAIN_SETTINGS]
    assert list(form) == [*MAIN_SETTINGS, *rarer]


def test_the_table_knows_the_graphs() -> None:
    assert list(settings.GRAPHS) == list(GRAPHS)
    assert all(set(each.graphs) < set(GRAPHS) for each in SETTINGS.values())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_description_names_only_graphs_that_heed_the_setting(name: str) -> None:
    said = set(re.findall(r"\w+", SETTINGS[name].does)) & (set(GRAPHS) - {"tribunal", "baseline"})
    assert said <= set(SETTINGS[name].graphs or GRAPHS)
    begins = describe_setting(name).startswith
    assert begins(name_graphs(SETTINGS[name].graphs))


def test_who_heeds_a_setting_in_words() -> None:
    assert describe_setting("top_k") == (
        "mv_debate only. How many top answers are revised after reflection. Default: half the views."
    )
    assert describe_setting("early_exit").startswith("tribunal, arcade and multiround only. ")
    assert describe_setting("aux_model").startswith(
        "Every graph but baseline and self_consistency. "
    )
    assert describe_setting("timeout") == "How many seconds one request may take. Default: 120."


@pytest.mark.parametrize("name", SETTINGS)
def test_the_default_that_is_said_is_the_default(name: str) -> None:
    default: Any = FIELDS[name].get_default(call_default_factory=True)
    said = SETTINGS[name].default
    if isinstance(default, bool):
        assert said == ("on" if default else "off")
    elif isinstance(default, int | float):
        assert float(said) == default
    elif default:
        assert said.split(";")[0] == default
    else:
        assert not said.replace(".", "").isdigit()


@pytest.mark.parametrize("name", SETTINGS)
def test_every_value_of_a_choice_is_named(name: str) -> None:
    words = re.findall(r"[\w-]+", SETTINGS[name].does)
    choices = {
        value for part in get_args(FIELDS[name].annotation) for value in get_args(part) or (part,)
    }
    assert choices - {type(None)} <= {*words, str, int, float, bool, Any}


def test_what_is_named_exists() -> None:
    assert set(re.findall(r"`(\w+)`", " ".join(map(describe_setting, SETTINGS)))) <= set(SETTINGS)
    assert all(view in SETTINGS["views"].does for view in VIEWS)
    assert all(policy in SETTINGS["policy"].default for policy in POLICIES.values())


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_says_the_new_one(old: str, new: str) -> None:
    assert old not in FIELDS
    assert new in FIELDS
    with pytest.raises(BadInput, match=f"^{old}: is called {new} now$"):
        context_from({old: 3})
    with pytest.raises(ValidationError, match=f"{old}: is called {new} now"):
        Context.model_validate({"rounds": 2, old: 3})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("windw_tokens", "windw_tokens: no such setting; did you mean window_tokens"),
        ("judgemodel", "judgemodel: no such setting; did you mean judge_model"),
        ("zzzzzz", "zzzzzz: no such setting; the settings are agents, answer_order, archive, "),
    ],
)
def test_a_wrong_name_names_the_nearest(name: str, says: str) -> None:
    with pytest.raises(BadInput) as told:
        context_from({name: 1})
    assert str(told.value).startswith(says)
