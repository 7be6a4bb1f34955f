"""The prompts that come with the project: who is asked with each, and a folder of them all to begin one's own with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.files import write_whole
from tribunal.plugins import load_all
from tribunal.prompts.sets import PromptSet, shipped_prompts
from tribunal.prompts.variables import FILLED_IN, OF_THE_CASE, OF_THE_POLICY, OF_THE_RUN, OF_THE_SYSTEM
from tribunal.systems import systems
from tribunal.templates import make_template_environment
from tribunal.text import suggest_name


class PromptPart(NamedTuple):
    """The use of a prompt. `seat` is who is asked with it, as `--seat` names them; empty: it is a part of others."""

    seat: str
    says: str


CATALOGUE: dict[str, PromptPart] = {
    "system/court": PromptPart("", "standing instructions of the courts"),
    "system/panel": PromptPart("", "standing instructions of predict"),
    "system/research": PromptPart("", "standing instructions of antihate"),
    "system/task": PromptPart("", "standing instructions of mv_debate and its peers"),
    "system/plain": PromptPart("", "standing instructions of antihate's zero-shot baseline"),
    "system/policy": PromptPart(
        "", "the policy's definition, exclusions and groups; in the instructions of those told them"
    ),
    "purpose": PromptPart("", "what the review is for; at the head of every system message"),
    "marks": PromptPart("", "how material is marked; in every system message"),
    "post": PromptPart("", "the words around the post; in every request"),
    "court/exhibits": PromptPart("", "what was found beside the post"),
    "court/appeal": PromptPart("", "the appeal; in a new trial, to all but the gatekeeper"),
    "court/precedents": PromptPart("", "the same, with cases that people decided"),
    "court/rest_on": PromptPart("", "what those who argue and judge may rest on, by what the case holds"),
    "court/examples": PromptPart("", "the examples of the policy"),
    "court/clauses": PromptPart("", "the clauses of the policy with their exceptions, where they are cited"),
    "court/clause_rules": PromptPart("", "the same without exceptions, for those who accuse"),
    "court/citing": PromptPart("", "which clauses of the policy a decision cites"),
    "court/cue_types": PromptPart("", "the types of cue"),
    "court/implied": PromptPart("", "the means of implied hate"),
    "court/relations": PromptPart("", "how text and image relate"),
    "court/triage": PromptPart("triage", "triage, before the trial"),
    "arcade/gatekeeper": PromptPart("gatekeeper", "the rapid scan for explicit cues"),
    "arcade/indictment": PromptPart("prosecutor", "the indictment of a fast track"),
    "arcade/rebuttal": PromptPart("defender", "the defence of a fast track"),
    "arcade/investigation": PromptPart("prosecutor", "the investigation of a deep dive"),
    "arcade/defence": PromptPart("defender", "the defence in a round of a deep dive"),
    "arcade/prosecution": PromptPart("prosecutor", "the prosecution in a later round of a deep dive"),
    "arcade/judge": PromptPart("judge", "the verdict of a court"),
    "arcade/classifier": PromptPart("classifier", "baseline: one call"),
    "predict/perspective": PromptPart("perspective", "the stance of one perspective"),
    "predict/base": PromptPart("annotator", "the mode base: one call without a perspective"),
    "predict/opening_non_hate": PromptPart("debater:not_hate", "the first argument for non-hate"),
    "predict/opening_hate": PromptPart("debater:hate", "the first argument for hate"),
    "predict/response": PromptPart("debater", "the answer of a side to the other"),
    "predict/judge": PromptPart("judge", "the verdict on the debate"),
    "antihate/queries": PromptPart("researcher", "search queries"),
    "antihate/urls": PromptPart("researcher", "the mode no-search: pages from memory"),
    "antihate/relevance": PromptPart("researcher", "which hits are worth reading"),
    "antihate/passages": PromptPart("researcher", "the evidence in a part of a page"),
    "antihate/weigh": PromptPart("researcher", "the judgement after a page"),
    "antihate/enough": PromptPart("researcher", "whether the evidence is enough"),
    "antihate/verdict": PromptPart("judge", "the verdict on the evidence"),
    "antihate/baseline": PromptPart("classifier", "the mode zero-shot: one call, answered in words"),
    "mv_debate/view_surface": PromptPart("", "who the view surface is"),
    "mv_debate/view_deep": PromptPart("", "who the view deep is"),
    "mv_debate/view_contrast": PromptPart("", "who the view contrast is"),
    "mv_debate/view_context": PromptPart("", "who the view context is"),
    "mv_debate/answer": PromptPart("view", "the answer of a view"),
    "mv_debate/score": PromptPart("judge", "the scores of the answers"),
    "mv_debate/reflection": PromptPart("reflection", "what is wrong with the answers"),
    "mv_debate/revision": PromptPart("view", "the revised answer of a view"),
    "mv_debate/summary": PromptPart("summary", "the verdict on the debate"),
    "system/explainer": PromptPart("", "standing instructions of the explanation for the person who posted"),
    "explained/plain": PromptPart("explainer", "the decision in plain words, for the person who posted"),
    "exam/post": PromptPart("classifier", "a post of the exam of tribunal doctor --try"),
    "peers/zero_shot": PromptPart("classifier", "baseline and self_consistency in the mode zero-shot"),
    "peers/agent": PromptPart("agent", "the answer of an equal in symmetric_debate"),
}


def find_prompt(name: str) -> str:
    """Return the text of a prompt, with or without `.md`: a shipped one, or one of an installed system.

    Raises:
        BadInput: there is none.
    """
    sources, prompt_name = {**shipped_prompts().sources, **list_system_prompts()}, name.removesuffix(".md")
    if prompt_name not in sources:
        way = suggest_name(prompt_name, sources) or "tribunal prompts list names them all"
        raise BadInput(f"prompt: {name}: there is none of this name; {way}")
    return sources[prompt_name]


def list_system_prompts() -> dict[str, str]:
    """Return the text of each prompt of the installed systems by name.

    Raises:
        BadInput: the prompts of one can't be read.
    """
    load_all("tribunal.graphs")
    return {name: text for system in systems() for name, text in system.read_prompts().items()}


def prompt_variables(name: str) -> list[str]:
    """Return the variables that a shipped prompt has to put in, beside those that are filled in by themselves."""
    own = shipped_prompts().variables(name) - FILLED_IN
    return sorted(own - OF_THE_SYSTEM if name.startswith("system/") else own)


def export_prompts(folder: Path) -> PromptSet:
    """Write every shipped prompt, and a README, into a new folder; whole or not at all.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    prompts = shipped_prompts()
    texts = {f"{name}.md": text + "\n" for name, text in prompts.sources.items()}
    write_new_folder(folder, {**texts, "README.md": _readme_text(folder)}, "prompts")
    return prompts


def write_new_folder(folder: Path, texts: Mapping[str, str], what: str) -> None:
    """Write files into a new folder; whole or not at all.

    Args:
        folder: where.
        texts: by the path of each file in it.
        what: what an error calls it.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    target = folder.expanduser()
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise BadInput(f"{what}: {folder}: is there already; give a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
            draft = Path(beside) / "draft"
            for name, text in texts.items():
                file = draft / name
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, text)
            if target.exists():
                target.rmdir()
            shutil.move(draft, target)
    except OSError as error:
        raise BadInput(f"{what}: {folder}: {error.strerror or error}; give a folder that can be written") from error


def _readme_text(folder: Path) -> str:
    read = files("tribunal.prompts").joinpath
    templates = make_template_environment(lambda name: read(name).read_text("utf-8"), str, autoescape=False)
    return templates.get_template("README.md.jinja").render(
        folder=folder.name,
        catalogue=CATALOGUE,
        variables=prompt_variables,
        of_the_policy=OF_THE_POLICY,
        of_the_run=OF_THE_RUN,
        of_the_case=OF_THE_CASE,
        of_the_system=OF_THE_SYSTEM,
    )
