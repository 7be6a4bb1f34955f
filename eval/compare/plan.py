"""Plan a comparison: check every entry and whether the posts are a test split before the first call, and run it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.eval.compare.entries import SHIPPED, Entries
from tribunal.eval.compare.moderation_log import ModerationLog, read_log
from tribunal.eval.datasets import Dataset, DatasetPool
from tribunal.eval.evaluate import CACHE, Evaluation, prepare_run, run_series
from tribunal.eval.experiments.plan import ReadyRun, open_evaluations
from tribunal.eval.runs.ledger import count_look
from tribunal.graphs import load_own
from tribunal.prompts.sets import PromptSet, read_prompt_set
from tribunal.runner.job import RunOptions
from tribunal.runner.results import Sample
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON
from tribunal.settings.contents import keep_files_read
from tribunal.settings.systems import system_of


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison whose entries were opened and checked.

    Attributes:
        entries: what is compared.
        out: the folder of the comparison, which holds the folders of its runs.
        ready_runs: the run of each setup and prompt set, in their order.
        prompt_sets: by the name of an entry, the prompt set of its own.
        logs: the moderation logs by name; their posts have the ids of the data set.
        data: run.json's description of the data.
        test_split: the test split that is looked at; None if prompts may be tuned on the posts, or none are compared.
        tuning_notes: what to know about prompts that are tuned on the posts.
    """

    entries: Entries
    out: Path
    ready_runs: tuple[ReadyRun, ...]
    prompt_sets: Mapping[str, PromptSet]
    logs: Mapping[str, ModerationLog]
    data: JSON
    test_split: str | None
    tuning_notes: tuple[str, ...]

    def prompt_differences(self) -> dict[str, list[str]]:
        """Return for each prompt set after the first the prompts that it words differently."""
        texts = {name: prompts.texts for name, prompts in self.prompt_sets.items()}
        first = next(iter(texts.values()), {})
        return {
            name: sorted(
                prompt
                for prompt in first.keys() | each.keys()
                if first.get(prompt) != each.get(prompt)
            )
            for name, each in list(texts.items())[1:]
        }


@keep_files_read()
def plan_comparison(
    entries: Entries, wanted: Evaluation, out: Path, *, final: bool = False
) -> ComparisonPlan:
    """Plan a comparison.

    Args:
        entries: what is compared.
        wanted: the posts, and all that the runs share but for graph and settings.
        out: the folder of the comparison, new or begun.
        final: a test split may be used to compare prompts, and the look at it is counted.

    Raises:
        BadInput: an entry is wrong, two prompt sets are the same, the posts are a test split and `final` isn't given,
            or as `prepare_run`.
    """
    if not entries.runs or len(entries.entries) < 2:
        raise BadInput(
            "setups: a comparison takes two entries or more, one of them a setup or a prompt set; give a file, "
            "--prompts or --log"
        )
    prompt_sets = _open_prompt_sets(entries)
    evaluations = {
        name: wanted.model_copy(
            update={
                "graph": entries.graph_of(entry),
                "settings": {
                    "cache": str(out / CACHE),
                    **wanted.settings,
                    **entries.settings_of(entry),
                },
            }
        )
        for name, entry in entries.runs.items()
    }
    prepared = prepare_run(next(iter(evaluations.values())))
    test_split = find_test_split(prepared.dataset, prepared.plan) if prompt_sets else None
    if test_split is not None and not final:
        raise BadInput(
            f"on: {prepared.dataset.name}: {test_split} is a test split: prompts that are chosen on it fit it. Tune on "
            "another (--split), and look at the test once, at the end, with --final"
        )
    if final and test_split is None:
        test_split = prepared.dataset.split  # the user calls it one
    logs = {
        name: read_log(entry).with_ids_of(prepared.plan) for name, entry in entries.logs.items()
    }
    ids = {sample.id for sample in prepared.plan} if logs else set()
    for log in logs.values():
        if not any(post.post_id in ids for post in log.posts):
            raise BadInput(
                f"log: {log.path}: has none of the posts of {prepared.dataset.name}, by id or text"
            )
    ready = asyncio.run(open_evaluations(evaluations, out))
    notes = tuple(list_tuning_notes(prepared.dataset)) if prompt_sets and test_split is None else ()
    return ComparisonPlan(
        entries, out, ready, prompt_sets, logs, prepared.held["data"], test_split, notes
    )


def _open_prompt_sets(entries: Entries) -> dict[str, PromptSet]:
    """Return the prompt sets that entries name, by entry; raise `BadInput` if two prompt sets are the same."""
    sets: dict[str, PromptSet] = {}
    places: dict[tuple[str, ...], str] = {}
    for name, entry in entries.runs.items():
        prompts = entries.prompts_of(entry)
        graph = entries.graph_of(entry)
        if prompts is None:
            continue
        load_own(graph)
        system = system_of(graph)
        edits = entries.settings_of(entry).get("prompt_texts", {})
        sets[name] = read_prompt_set(
            None if prompts == SHIPPED else prompts, system.name if system else None, edits
        )
        same = sets[name].sha, graph, str(entry.settings)
        if same in places:
            raise BadInput(
                f"prompts: {places[same]} and {name}: are the same (hash {sets[name].sha}); leave one out"
            )
        places[same] = name
    return sets


@keep_files_read()
def run_comparison(
    plan: ComparisonPlan, options: RunOptions, announce: Callable[[str], None]
) -> list[tuple[str, RunTally]]:
    """Run a plan, or go on with it; a look at a test split is counted first.

    Returns:
        The state of each run, by its name. The last one may have been stopped; the runs after it weren't begun.

    Raises:
        BadInput: as `tribunal.eval.evaluate.run_series`, or the looks can't be counted.
    """
    look = None
    if plan.test_split is not None:
        look = count_look(
            plan.out,
            {**plan.data, "split": plan.test_split},
            {
                "graph": plan.entries.graph,
                "prompts": [each.dump() for each in plan.prompt_sets.values()],
            },
        )
    evaluations = [
        (each.run.name, each.evaluation.model_copy(update={"final_look": look}))
        for each in plan.ready_runs
    ]
    return run_series(evaluations, plan.out, options, announce)


_TEST = re.compile(r"(?<![a-z])test", re.IGNORECASE)
# Splits of published sets that are there to be tuned on, unless the papers report on them.
_FOR_TUNING = frozenset(("train", "training", "dev", "val", "valid", "validation"))


def find_test_split(dataset: Dataset | DatasetPool, posts: Iterable[Sample]) -> str | None:
    """Return the name of the test split that posts are of, or None if prompts may be tuned on them.

    A published set is a test but for its splits for tuning; the split that the papers report on, its default, is a test
    whatever it is called. A table is one where the column that names a post's split says so, or, without such a column,
    the name of its file.

    Args:
        dataset: the set.
        posts: those that are taken of it.
    """
    parts = dataset.parts if isinstance(dataset, DatasetPool) else (dataset,)
    for part in parts:
        if part.mapped and part.spec.splits_by_column:
            found = _split_of_table(part, posts)
            if found is not None:
                return found
        elif part.split == part.spec.default or part.split.casefold() not in _FOR_TUNING:
            return part.split
    return None


def list_tuning_notes(dataset: Dataset | DatasetPool) -> list[str]:
    """Return what has to be known of prompts that are tuned on this data, a note for each set that has one."""
    parts = dataset.parts if isinstance(dataset, DatasetPool) else (dataset,)
    return [f"{part.name}: {part.spec.tuning_note}" for part in parts if part.spec.tuning_note]


def _split_of_table(table: Dataset, posts: Iterable[Sample]) -> str | None:
    column = table.columns.get("split", "split")
    splits = {str(sample.fields[column]) for sample in posts if sample.fields.get(column)}
    if splits:
        return next((each for each in sorted(splits) if _TEST.search(each)), None)
    return next((file.name for file in table.files if _TEST.search(file.stem)), None)
