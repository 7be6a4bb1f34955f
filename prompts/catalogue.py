"""The prompts that come with the project: who is asked with each, and a folder of them all to begin one's own with."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.plugins import load_all
from tribunal.prompts.sets import OF_THE_POLICY, OF_THE_RUN, OF_THE_SYSTEM, PromptSet, shipped
from tribunal.systems import systems
from tribunal.text import meant


class Part(NamedTuple):
    """What a prompt is for. `seat` is who is asked with it, as `--seat` names them; empty: it is a part of others."""

    seat: str
    says: str


CATALOGUE: dict[str, Part] = {
    "system/court": Part("", "standing instructions of the courts"),
    "system/panel": Part("", "standing instructions of predict"),
    "system/research": Part("", "standing instructions of antihate"),
    "system/task": Part("", "standing instructions of mv_debate and its peers"),
    "system/plain": Part("", "standing instructions of antihate's zero-shot baseline"),
    "marks": Part("", "how material is marked; in every system message"),
    "post": Part("", "the words around the post; in every request"),
    "court/exhibits": Part("", "what was found beside the post"),
    "court/appeal": Part("", "what is said against an earlier verdict; in a new trial, to all but the gatekeeper"),
    "court/precedents": Part("", "the same, with cases that people decided"),
    "court/cue_types": Part("", "the types of cue"),
    "court/implied": Part("", "the means of implied hate"),
    "court/relations": Part("", "how text and image relate"),
    "court/triage": Part("triage", "the first look"),
    "arcade/gatekeeper": Part("gatekeeper", "the rapid scan for explicit cues"),
    "arcade/indictment": Part("prosecutor", "the indictment of a fast track"),
    "arcade/rebuttal": Part("defender", "the defence of a fast track"),
    "arcade/investigation": Part("prosecutor", "the investigation of a deep dive"),
    "arcade/defence": Part("defender", "the defence in a round of a deep dive"),
    "arcade/prosecution": Part("prosecutor", "the prosecution in a later round of a deep dive"),
    "arcade/judge": Part("judge", "the verdict of a court"),
    "arcade/classifier": Part("classifier", "baseline: one call"),
    "predict/perspective": Part("perspective", "the stance of one perspective"),
    "predict/base": Part("annotator", "the mode base: one call without a perspective"),
    "predict/opening_non_hate": Part("debater:not_hate", "the first argument for non-hate"),
    "predict/opening_hate": Part("debater:hate", "the first argument for hate"),
    "predict/response": Part("debater", "the answer of a side to the other"),
    "predict/judge": Part("judge", "the verdict on the debate"),
    "antihate/queries": Part("researcher", "search queries"),
    "antihate/urls": Part("researcher", "the mode no-search: pages from memory"),
    "antihate/relevance": Part("researcher", "which hits are worth reading"),
    "antihate/passages": Part("researcher", "the evidence in a part of a page"),
    "antihate/weigh": Part("researcher", "the judgement after a page"),
    "antihate/enough": Part("researcher", "whether the evidence is enough"),
    "antihate/verdict": Part("judge", "the verdict on the evidence"),
    "antihate/baseline": Part("classifier", "the mode zero-shot: one call, answered in words"),
    "mv_debate/view_surface": Part("", "who the view surface is"),
    "mv_debate/view_deep": Part("", "who the view deep is"),
    "mv_debate/view_contrast": Part("", "who the view contrast is"),
    "mv_debate/view_context": Part("", "who the view context is"),
    "mv_debate/answer": Part("view", "the answer of a view"),
    "mv_debate/score": Part("judge", "the scores of the answers"),
    "mv_debate/reflection": Part("reflection", "what is wrong with the answers"),
    "mv_debate/revision": Part("view", "the revised answer of a view"),
    "mv_debate/summary": Part("summary", "the verdict on the debate"),
    "system/explainer": Part("", "standing instructions of the explanation for the person who posted"),
    "explained/plain": Part("explainer", "the decision in plain words, for the person who posted"),
    "peers/zero_shot": Part("classifier", "baseline and self_consistency in the mode zero-shot"),
    "peers/agent": Part("agent", "the answer of an equal in symmetric_debate"),
}
_README = """\
# Prompts

Every prompt of Tribunal, to be changed. Run a graph with them:

    tribunal judge "…" --prompts {folder}

Check them without a model:

    tribunal prompts check {folder}

A file may be removed; ours then stands in its place. A file of your own whose name begins with `_` can be included:
`{{% include "_tone" %}}`.

Put in every variable that the table names. To leave one out on purpose, write `{{% set _ = NAME %}}`. Words of others
stand alone, as in `{{{{ post }}}}`: with no filter, and nothing joined to them.

A prompt may also use {of_the_policy} and {of_the_run}.
One in `system/` may use {of_the_system}.
These are filled in by themselves.

| file | who is told | what it is for | variables |
|---|---|---|---|
{rows}
"""


def prompt(name: str) -> str:
    """The text of the prompt of this name, with or without `.md`: a shipped one, or one of an installed system.

    Raises:
        BadInput: there is none.
    """
    sources, wanted = {**shipped().sources, **of_systems()}, name.removesuffix(".md")
    if wanted not in sources:
        way = meant(wanted, sources) or "tribunal prompts list names them all"
        raise BadInput(f"prompt: {name}: there is none of this name; {way}")
    return sources[wanted]


def of_systems() -> dict[str, str]:
    """Return the text of each prompt of the installed systems by name.

    Raises:
        BadInput: the prompts of one can't be read.
    """
    load_all("tribunal.graphs")
    return {name: text for system in systems() for name, text in system.read_prompts().items()}


def variables_of(name: str) -> list[str]:
    """What a shipped prompt has to put in, beside what is filled in by itself."""
    own = shipped().variables(name) - OF_THE_POLICY - OF_THE_RUN
    return sorted(own - OF_THE_SYSTEM if name.startswith("system/") else own)


def export(folder: Path) -> PromptSet:
    """Write every shipped prompt, and a README, into a new folder; whole or not at all.

    Raises:
        BadInput: something is there already, or it can't be written.
    """
    made = shipped()
    target = folder.expanduser()
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise BadInput(f"prompts: {folder}: is there already; give a new folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
            draft = Path(beside) / "prompts"
            for name, text in made.sources.items():
                file = draft / f"{name}.md"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text + "\n", "utf-8")
            (draft / "README.md").write_text(_readme(folder), "utf-8")
            if target.exists():
                target.rmdir()
            shutil.move(draft, target)
    except OSError as error:
        raise BadInput(f"prompts: {folder}: {error.strerror or error}; give a folder that can be written") from error
    return made


def _readme(folder: Path) -> str:
    rows = []
    for name, part in CATALOGUE.items():
        named = ", ".join(f"`{each}`" for each in variables_of(name))
        rows.append(f"| `{name}.md` | {part.seat or '—'} | {part.says} | {named} |")
    return _README.format(
        folder=folder.name,
        of_the_policy=", ".join(f"`{each}`" for each in sorted(OF_THE_POLICY)),
        of_the_run=", ".join(f"`{each}`" for each in sorted(OF_THE_RUN)),
        of_the_system=", ".join(f"`{each}`" for each in sorted(OF_THE_SYSTEM)),
        rows="\n".join(rows),
    )
