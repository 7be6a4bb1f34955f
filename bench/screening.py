"""Simulate how often a screening classifier breaks its promise, and how soon its audit notices, by whole fits.

A post is a few words of a small vocabulary, each of which makes hate more or less likely, so that the true chance of
hate is known of each text. A promise is broken where the true share of hate among what is called harmless, or of no
hate among what is called hateful, is over what was promised, as a large pool of further posts has it.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.table import table
from tribunal.errors import BadInput
from tribunal.eval.screening.decided_posts import LabelledTexts
from tribunal.eval.screening.fit import FittedScreener, ScreenerPromise, fit_screener
from tribunal.eval.screening.learning import feature_matrix
from tribunal.retrievers.screening.audit import betting_score
from tribunal.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tribunal.eval.measures.columns import Bools, Floats, Ints

_WORDS = 9  # in a post
_OF_A_VOCABULARY = 20  # fits
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve", "wi", "xo", "zu", "ka", "li")


class World(NamedTuple):
    """Posts as they may come.

    Attributes:
        name: in words.
        n: posts of a fit.
        promise: what is asked for.
        copies: how many posts have nearly the same text, and the label of the first.
        shift: added to the log odds of hate: below 0 it is rare.
        sharp: how much the words tell.
        pool: further posts, by which the truth is measured.
    """

    name: str
    n: int
    promise: ScreenerPromise = ScreenerPromise(0.1, 0.1)
    copies: int = 1
    shift: float = 0.0
    sharp: float = 6.0
    pool: int = 4_000


WORLDS = (
    World("i.i.d.", 800),
    World("words tell less", 800, sharp=3.0),
    World("near-copies, five of each", 3_000, copies=5),
    World("few posts", 300),
    World("rare: 12 % hate", 2_000, ScreenerPromise(0.02, 0.1), shift=-15.0),
)


@dataclass
class Vocabulary:
    """A vocabulary whose words make hate more or less likely, and a pool of further posts with their true chances."""

    words: list[str]
    weight: Floats
    pool: Any
    chance: Floats

    @classmethod
    def drawn(cls, world: World, random: np.random.Generator) -> Vocabulary:
        """Draw eighty words and the weights by which they make a post hateful."""
        words = random.choice([one + other for one in _SYLLABLES for other in _SYLLABLES], 80, replace=False).tolist()
        made = cls(words, random.normal(0, world.sharp, 80), None, np.empty(0))
        at, made.chance = made.posts(world, world.pool, random)
        made.pool = feature_matrix(made.texts(at))
        return made

    def posts(self, world: World, n: int, random: np.random.Generator) -> tuple[Ints, Floats]:
        """Return the words of so many posts, and the true chance of hate of each."""
        at = random.integers(0, len(self.words), (n, _WORDS))
        return at, 1 / (1 + np.exp(-(self.weight[at].sum(axis=1) / np.sqrt(_WORDS) * 2 + world.shift)))

    def texts(self, at: Ints) -> list[str]:
        """Return the posts as texts."""
        return [" ".join(self.words[each] for each in row) for row in at.tolist()]


def sample(world: World, vocabulary: Vocabulary, random: np.random.Generator) -> LabelledTexts:
    """Return posts that people decided, with their copies."""
    at, chance = vocabulary.posts(world, world.n // world.copies, random)
    hateful = np.repeat(random.random(len(chance)) < chance, world.copies)
    texts = [f"{text}{'.' * copy}" for text in vocabulary.texts(at) for copy in range(world.copies)]
    ids = [f"p{number}" for number in range(len(texts))]
    return LabelledTexts(
        {"fitted_from": "simulated", "policy": None},
        ids=ids,
        texts=texts,
        hateful=hateful.tolist(),
        language=["und"] * len(ids),
        by_people=[True] * len(ids),
    )


def truth(found: FittedScreener, vocabulary: Vocabulary) -> tuple[float | None, float | None, float]:
    """Return the true shares of hate among the harmless, of no hate among the hateful, and of what is decided."""
    held = found.manifest
    raw = vocabulary.pool[:, found.arrays.known] @ found.arrays.weights + held.bias
    chance = 1 / (1 + np.exp(-(held.slope * raw + held.intercept)))
    harmless = _called(1 - chance, held.harmless)
    hateful = _called(chance, held.hateful)
    missed = float(vocabulary.chance[harmless].mean()) if harmless.any() else None
    false = float(1 - vocabulary.chance[hateful].mean()) if hateful.any() else None
    return missed, false, float((harmless | hateful).mean())


def _called(confidence: Floats, least: float | None) -> Bools:
    called: Bools = (confidence > 0.5) & (confidence >= (2 if least is None else least))
    return called


class Outcome(NamedTuple):
    """What a simulated fit came to; `found` is false where nothing could be promised."""

    found: bool
    broken: bool
    decided: float


def outcome(world: World, vocabulary: Vocabulary, random: np.random.Generator, folder: Path) -> Outcome:
    """One fit on posts drawn anew."""
    ledger = folder / "fits.jsonl"
    ledger.unlink(missing_ok=True)  # each is the first fit on its posts
    try:
        made = fit_screener(sample(world, vocabulary, random), world.promise, ledger)
    except BadInput:
        return Outcome(found=False, broken=False, decided=0.0)
    missed, false, decided = truth(made, vocabulary)
    over = (missed or 0) > world.promise.missed_hate or (false or 0) > world.promise.false_alarms
    return Outcome(found=True, broken=over, decided=decided)


def outcomes(world: World, fits: int, seed: int, vocabulary: int = 0) -> list[Outcome]:
    """So many fits of a world on one vocabulary; its number and the seed say which."""
    random = np.random.default_rng([seed, vocabulary])
    drawn = Vocabulary.drawn(world, random)
    with TemporaryDirectory() as scratch:
        return [outcome(world, drawn, random, Path(scratch)) for _ in range(fits)]


def _on_every_core(fits: int) -> list[list[Outcome]]:
    """Return the fits of every world, a new vocabulary for every twentieth."""
    asked = [(seed, number) for seed in range(len(WORLDS)) for number in range(0, fits, _OF_A_VOCABULARY)]
    some = min(fits, _OF_A_VOCABULARY)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as cores:
        running = [(seed, cores.submit(outcomes, WORLDS[seed], some, seed, number)) for seed, number in asked]
        done: list[list[Outcome]] = [[] for _ in WORLDS]
        for seed, each in running:
            done[seed] += each.result()
    return done


def switched_off_after(
    wrong: Sequence[float] | Floats, max_error_rate: float, level: float, random: np.random.Generator
) -> int | None:
    """Return after how many audited posts it is switched off, or None; `wrong` has each post's error rate."""
    errors = np.cumsum(random.random(len(wrong)) < np.asarray(wrong))
    bound = 4 / (1 - level)
    return next(
        (n for n, many in enumerate(errors.tolist(), start=1) if betting_score(n, many, max_error_rate) >= bound), None
    )


def screening(quick: bool) -> None:
    """Measure fits on posts drawn anew each time, and audits of classifiers that keep their promise or break it."""
    fits, audits = (10, 50) if quick else (500, 500)
    say(f"### screening: {fits} fits each, level 0.9\n", lines=True)
    rows = []
    for world, done in zip(WORLDS, _on_every_core(fits), strict=True):
        found = [each for each in done if each.found]
        decided = f"{np.mean([each.decided for each in found]):.0%}" if found else "-"
        broken = f"{np.mean([each.broken for each in done]):.1%}"
        rows.append([world.name, f"{world.n:,}", f"{len(found) / fits:.0%}", decided, broken])
    table(("posts", "of a fit", "something is promised", "decided then", "a promise is broken"), rows)
    say("At most 10 % of fits may break a promise.\n", lines=True)
    random = np.random.default_rng(18)
    rows = []
    for name, wrong in (
        ("as promised to a hair: 5 %", np.full(5_000, 0.05)),
        ("kept: 3 %", np.full(5_000, 0.03)),
        ("drift after 1,000: 3 %, then 10 %", np.r_[np.full(1_000, 0.03), np.full(4_000, 0.10)]),
        ("drift after 1,000: 3 %, then 20 %", np.r_[np.full(1_000, 0.03), np.full(4_000, 0.20)]),
        ("broken from the start: 15 %", np.full(5_000, 0.15)),
    ):
        ends = [switched_off_after(wrong, 0.05, 0.9, random) for _ in range(audits)]
        off = [each for each in ends if each is not None]
        rows.append([name, f"{len(off) / audits:.1%}", f"{np.median(off):,.0f}" if off else "-"])
    table(("errors among audited posts, at most 5 % allowed", "switched off within 5,000", "after (median)"), rows)
