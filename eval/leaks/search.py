"""Look for the phrases of prompts in the posts of data sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.eval.datasets import find_dataset
from tribunal.eval.datasets.dataset import Dataset
from tribunal.eval.leaks.hash_list import HashList
from tribunal.eval.leaks.phrases import (
    LONGEST,
    SHORTEST,
    Tokens,
    count_content,
    join_tokens,
    short_phrase,
    split_runs,
)
from tribunal.eval.leaks.prompt_texts import quoted_texts
from tribunal.schema import Frozen

# What answers and search operators are called, and groups that explain `target_group`: in quotation marks they give
# nothing away.
_ANSWERS = """
agree concede direct hate hateful homophobic metaphor muslims neutral no press quotes racist rebut refute refutes
religious sarcastic sexist supports withdraw women yes
"""
ANSWERS = frozenset(_ANSWERS.split())


class SetPost(NamedTuple):
    """The words of one post of a set: its text, and the posts before it."""

    dataset: str
    id: str
    texts: tuple[str, ...]


class Leak(Frozen):
    """A phrase of prompts that stands in a post of a set."""

    prompts: tuple[str, ...]
    phrase: str
    dataset: str
    post_id: str


class LeakSearch:
    """The phrases of prompts, to be looked for in posts.

    Attributes:
        posts: how many were looked at.
    """

    def __init__(self, prompts: Mapping[str, Iterable[str]], allowed: Iterable[str] = ()) -> None:
        """Take the phrases of texts.

        Args:
            prompts: the texts, by the name of the prompt that they stand in.
            allowed: words that may stand alone in quotation marks, beside `ANSWERS`.
        """
        self._allowed = ANSWERS | {word.casefold() for word in allowed}
        self.posts = 0
        self._phrases: dict[Tokens, set[str]] = defaultdict(set)
        self._short: dict[Tokens, set[str]] = defaultdict(set)  # a whole post may be one of these
        self._quoted: dict[Tokens, set[str]] = defaultdict(set)
        for name, texts in prompts.items():
            held = list(texts)
            for run in (run for text in held for run in split_runs(text)):
                for _, phrase in run.phrases():
                    self._phrases[phrase].add(name)
                for length in range(SHORTEST[run.unit], LONGEST[run.unit]):
                    for _, phrase in run.phrases(length):
                        self._short[phrase].add(name)
            for quoted in quoted_texts(held):
                runs = split_runs(quoted)
                if len(runs) == 1 and runs[0].unit == "word" and self._is_example(runs[0].tokens):
                    self._quoted[runs[0].tokens].add(name)

    def _is_example(self, tokens: Tokens) -> bool:
        """Return whether words in quotation marks, fewer than a phrase, say something that no answer is called."""
        if len(tokens) == 1:
            return count_content(tokens) > 0 and tokens[0] not in self._allowed
        return len(tokens) < LONGEST["word"] and count_content(tokens) > 1

    def leaks_in(self, post: SetPost) -> Iterator[Leak]:
        """Yield the phrases that stand in a post, the neighbouring ones as one."""
        self.posts += 1
        for text in post.texts:
            if (whole := short_phrase(text)) in self._short:
                yield self._leak(self._short[whole], join_tokens(whole), post)
            for run in split_runs(text):
                places = [place for place, phrase in run.phrases() if phrase in self._phrases]
                for start, last in _join_neighbours(places):
                    names = set[str]().union(
                        *(
                            self._phrases.get(run.tokens[at : at + LONGEST[run.unit]], ())
                            for at in range(start, last + 1)
                        )
                    )
                    yield self._leak(names, join_tokens(run.tokens[start : last + LONGEST[run.unit]]), post)
                for tokens in self._quoted_in(run.tokens) if run.unit == "word" else ():
                    yield self._leak(self._quoted[tokens], join_tokens(tokens), post)

    def _quoted_in(self, tokens: Tokens) -> set[Tokens]:
        found = (tokens[at : at + n] for n in range(1, LONGEST["word"]) for at in range(len(tokens) - n + 1))
        return {each for each in found if each in self._quoted}

    @staticmethod
    def _leak(names: Iterable[str], phrase: str, post: SetPost) -> Leak:
        return Leak(prompts=tuple(sorted(names)), phrase=phrase, dataset=post.dataset, post_id=post.id)

    def leaks_by_list(self, held: HashList) -> Iterator[Leak]:
        """Yield the phrases that a hash list holds. It knows no post, and may err (`HashList.false_alarm_rate`)."""
        for tokens, names in self._phrases.items():
            if tokens in held:
                yield self._leak(names, join_tokens(tokens), SetPost(held.name, "", ()))


def _join_neighbours(places: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of the places that follow each other."""
    joined: list[tuple[int, int]] = []
    for place in places:
        if joined and joined[-1][1] == place - 1:
            joined[-1] = joined[-1][0], place
        else:
            joined.append((place, place))
    return joined


def read_posts(name: str, data: Path, columns: Mapping[str, str] | None = None) -> Iterator[SetPost]:
    """Yield the words of every post of a set: of every split whose files are there. Images aren't looked for.

    Raises:
        BadInput: there is no such set or file, or a row is wrong.
    """
    spec = find_dataset(name)
    # A table is read without its labels, so that every row gives a post.
    own = {**(columns or {}), **({"label": ""} if spec.name == "table" else {})} if spec.mapped else None
    splits: list[str | None] = [None]
    if data.is_dir():
        splits = [split for split in spec.splits if _is_there(name, data, split)] or [None]
    seen = set[tuple[Path, ...]]()
    for split in splits:
        dataset = Dataset(spec, data, split=split, columns=own)
        if dataset.files in seen:
            continue
        seen.add(dataset.files)
        for sample in spec.read(dataset):
            yield SetPost(name, sample.id, (sample.text, *sample.earlier))


def _is_there(name: str, data: Path, split: str) -> bool:
    try:
        find_dataset(name).locate_files(data, split)
    except BadInput:
        return False
    return True
