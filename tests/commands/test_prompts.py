"""`tribunal prompts`: what is listed and shown, and a folder that is exported, changed, checked and used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tribunal.commands import app
from tribunal.commands.role_list import iter_roles
from tribunal.prompts.catalogue import CATALOGUE
from tribunal.prompts.sets import read_prompt_set, shipped_prompts


def ran(*arguments: str, ends: int = 0) -> str:
    result = CliRunner().invoke(app, ["prompts", *arguments])
    assert result.exit_code == ends, result.output
    return result.output


def test_every_prompt_is_listed_with_who_is_asked_with_it() -> None:
    listed = {line.split()[0]: line for line in ran("show").splitlines()[1:]}
    assert listed.keys() == shipped_prompts().sources.keys()
    told: dict[str, set[str]] = {}
    for role in iter_roles():
        told.setdefault(role.prompt, set()).add(role.seat)
    for name, part in CATALOGUE.items():
        seats = told.pop(name, set())
        # Two of a kind are told the same by the kind's name.
        assert part.seat in (seats or {""}) or {seat.partition(":")[0] for seat in seats} == {
            part.seat
        }, name
        assert part.seat in listed[name]
        assert part.says in listed[name]
    assert told == {}


@pytest.mark.parametrize("name", ["arcade/judge", "arcade/judge.md"])
def test_a_prompt_is_shown_as_it_is(name: str) -> None:
    assert ran("show", name) == shipped_prompts().sources["arcade/judge"] + "\n"


def test_a_name_that_there_is_none_of_names_what_was_meant() -> None:
    assert "prompt: arcade/jugde: there is none of this name; did you mean arcade/judge" in ran(
        "show", "arcade/jugde", ends=2
    )


def test_an_exported_folder_is_our_set_by_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "mine"
    assert shipped_prompts().sha in ran("export", str(folder))
    assert read_prompt_set(str(folder)).sha == shipped_prompts().sha
    checked = ran("check", str(folder))
    assert shipped_prompts().sha in checked
    assert "other than ours: none" in checked
    assert {path.name for path in folder.parent.iterdir()} == {"mine"}


def test_its_readme_names_each_file_and_what_it_has_to_put_in(tmp_path: Path) -> None:
    ran("export", str(tmp_path / "mine"))
    readme = (tmp_path / "mine" / "README.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in readme.splitlines() if line.startswith("| `")}
    assert rows.keys() == {f"{name}.md" for name in shipped_prompts().sources}
    assert rows["arcade/defence.md"].endswith("| `own`, `prosecution`, `round` |")
    for name in ("post.md", "arcade/judge.md", "predict/response.md", "mv_debate/summary.md"):
        variables = rows[name].split(" | ")[-1].split("`")[1::2]
        file = tmp_path / "bare" / name
        file.parent.mkdir(parents=True)
        file.write_text("Nothing is put in.", "utf-8")
        assert f"leaves out {', '.join(variables)}; put it in" in ran(
            "check", str(tmp_path / "bare"), ends=2
        )
        shutil.rmtree(tmp_path / "bare")


@pytest.mark.parametrize("there", ["a file", "a folder with a prompt", "a link"])
def test_nothing_is_overwritten(there: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    if there == "a file":
        folder.write_text("mine", "utf-8")
    elif there == "a link":
        folder.symlink_to(tmp_path / "nowhere")
    else:
        (folder / "arcade").mkdir(parents=True)
        (folder / "arcade" / "judge.md").write_text("mine", "utf-8")
    assert "is there already; give a new folder" in ran("export", str(folder), ends=2)
    assert not (tmp_path / "nowhere").exists()
    if there == "a folder with a prompt":
        assert [path.read_text("utf-8") for path in folder.rglob("*.md")] == ["mine"]


async def test_what_is_changed_in_it_is_what_the_judge_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    ran("export", str(folder))
    judge = folder / "arcade" / "judge.md"
    judge.write_text(judge.read_text("utf-8") + "\nBe brief.\n", "utf-8")
    assert "other than ours: arcade/judge\n" in ran("check", str(folder))
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, prompts=str(folder))
    told = [
        number
        for number in range(len(server.requests))
        if "Be brief." in server.requests[number].text
    ]
    assert told == [len(server.requests) - 1]
    assert record.prompts["name"] == "mine"


def test_a_fault_is_named_with_its_file(tmp_path: Path) -> None:
    ran("export", str(tmp_path / "mine"))
    (tmp_path / "mine" / "arcade" / "judge.md").write_text("{{ transcrit }}", "utf-8")
    assert "arcade/judge.md, line 1: there is no 'transcrit' here; did you mean transcript?" in ran(
        "check", str(tmp_path / "mine"), ends=2
    )
