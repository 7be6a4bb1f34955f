"""Which posts of a data set a run takes: all, some at random, balanced, or as many as a paper took.

A post's rank is a hash of the seed and its id, and the lowest ranks are taken. So the choice is the same on every
machine and version of Python, doesn't change with the order of a file, and the first 100 are among the first 200.

A run that is shuffled takes its posts in the order of their ranks. Sets lie sorted in their files, by kind or by label,
and the measures of half a run would be those of some kinds alone.
"""

from __future__ import annotations

from typing import Any, Literal

from tribunal.errors import BadInput
from tribunal.eval.datasets import Dataset
from tribunal.eval.datasets.dataset import PaperProtocol
from tribunal.eval.datasets.plan import Images as Images
from tribunal.eval.datasets.plan import Plan as Plan
from tribunal.eval.datasets.pool import Pool
from tribunal.eval.datasets.ranks import Ranked
from tribunal.eval.datasets.sample import Sample

# The order of a run's posts, as run.json says it.
SHUFFLED, IN_ORDER = "shuffled by the seed", "as in the files"
_MOST_VALUES = 100  # of a field that is balanced over


def choose(
    dataset: Dataset | Pool,
    *,
    samples: int | None = None,
    seed: int = 0,
    balance: str | None = None,
    protocol: Literal["paper"] | PaperProtocol | None = None,
    shuffled: bool = False,
) -> Plan:
    """Choose the posts of a run. Reads the whole set once, so that a wrong row is found before any model is asked.

    Args:
        dataset: the set.
        samples: how many; none given: all. With `balance` pattern, the number over all patterns; with label or a
            field, the number of each label or value. With `protocol`, the number over all kinds that the paper took,
            each in the paper's proportion.
        seed: another seed, other posts.
        balance: `pattern`: an equal quota of each SMI pattern; what is over, and what a pattern has too few of, is
            shared by the others; `label`: as many of each gold label; a field of the set (`implicit`), or several of
            these, separated by commas: as many of each value, or of each combination.
        protocol: `paper`: the posts that the set's paper evaluated on; or which posts one of a paper's tables took.
        shuffled: take them in an order that follows from the seed, and not in the set's.

    Returns:
        The posts, in the set's order or shuffled.

    Raises:
        BadInput: the set has fewer than were asked for (how many it has), it lacks what the choice goes by, two posts
            have one id, or a row is wrong.
    """
    if protocol is not None:
        if balance is not None:
            raise BadInput("balance: a paper's sample has a balance of its own; leave out balance, or the protocol")
        return _paper(dataset, dataset.paper if protocol == "paper" else protocol, samples, seed, shuffled)
    if samples is None:
        if balance is not None:
            raise BadInput("balance: give the number of samples as well")
        ranked = Ranked(dataset, seed, lambda _: "posts", shuffled)
        return ranked.plan(None)
    if samples < 1:
        raise BadInput(f"samples: {samples}: is not 1 or more")
    if balance == "pattern":
        return _by_pattern(dataset, samples, seed, shuffled)
    if balance is not None:
        return _of_each(dataset, samples, seed, [name.strip() for name in balance.split(",")], shuffled)
    return Ranked(dataset, seed, lambda _: "posts", shuffled, samples).plan({"posts": samples})


def _of_each(dataset: Dataset | Pool, samples: int, seed: int, names: list[str], shuffled: bool) -> Plan:
    """As many posts of each value, or of each combination of values; a post that lacks one is left out."""
    values = [_Values(dataset.name, name) for name in names]

    def stratum(post: Sample) -> str | None:
        held = [each.of(post) for each in values]
        return None if None in held else ", ".join(str(each) for each in held)

    ranked = Ranked(dataset, seed, stratum, shuffled, samples)
    for each in values:
        each.check()
    if not ranked.counts:
        raise BadInput(f"balance: no post of {dataset.name} has {' and '.join(names)}")
    return ranked.plan(dict.fromkeys(ranked.counts, samples))


class _Values:
    """What a label or a field of a set is in each post, as a kind of posts: `label 1`, `implicit true`."""

    def __init__(self, dataset: str, name: str) -> None:
        self._dataset, self._name = dataset, name
        self._met: set[str] = set()
        self._fields: dict[str, None] = {}

    def of(self, post: Sample) -> str | None:
        """This post's; none where it has none.

        Raises:
            BadInput: the field holds a list, or has more values than can be balanced over.
        """
        self._fields.update(dict.fromkeys(post.fields))
        value = self._value(post)
        if value is None:
            return None
        if isinstance(value, list | dict):
            raise BadInput(f"balance: {self._name}: holds several values a post; name a field that holds one")
        said = str(value).lower() if isinstance(value, bool) else str(value)
        self._met.add(said)
        if len(self._met) > _MOST_VALUES:
            raise BadInput(f"balance: {self._name}: has more than {_MOST_VALUES} values in {self._dataset}")
        return f"{self._name} {said}"

    def _value(self, post: Sample) -> Any:
        if self._name == "label":
            return post.gold.label if post.gold else None
        # `whoTarget`, as SBIC calls it, is the field who_target.
        found = next((held for held in post.fields if _plain(held) == _plain(self._name)), None)
        return None if found is None else post.fields[found]

    def check(self) -> None:
        """Refuse what no post has."""
        if not self._met:
            what = "gold labels" if self._name == "label" else f"{self._name}; they have {', '.join(self._fields)}"
            raise BadInput(f"balance: the posts of {self._dataset} have no {what}")


def _plain(field: str) -> str:
    return field.replace("_", "").casefold()


def _by_pattern(dataset: Dataset | Pool, samples: int, seed: int, shuffled: bool) -> Plan:
    ranked = Ranked(dataset, seed, lambda post: post.fields.get("smi_pattern"), shuffled, samples)
    if not ranked.counts:
        raise BadInput(f"balance: the posts of {dataset.name} have no SMI patterns")
    return ranked.evenly(samples)


def _paper(
    dataset: Dataset | Pool, paper: PaperProtocol | None, samples: int | None, seed: int, shuffled: bool
) -> Plan:
    if paper is None:
        raise BadInput(f"protocol: paper: no paper has one for {dataset.name}; give samples and seed")
    if dataset.split != paper.split:
        raise BadInput(f"protocol: paper: the paper's is of the split {paper.split}, not {dataset.split}")
    most = max(paper.quotas.values(), default=0)
    ranked = Ranked(dataset, seed if paper.seed is None else paper.seed, paper.stratum, shuffled, most)
    _check_whole(ranked, paper)
    if samples is not None:
        return ranked.plan(_shares(paper, samples), called=f"protocol: paper ({paper.says})")
    if not dataset.left_out:
        return ranked.plan(paper.quotas, called=f"protocol: paper ({paper.says})")
    # What the paper took can't be had whole, which the caller knows: posts without their image are to be left out.
    quotas = {kind: min(quota, ranked.counts[kind]) for kind, quota in paper.quotas.items()}
    lost = sum(paper.quotas.values()) - sum(quotas.values())
    fewer = f"protocol: paper: {lost:,} posts fewer than it took ({paper.says})"
    return ranked.plan(quotas, warning=fewer if lost else "")


def _shares(paper: PaperProtocol, samples: int) -> dict[str, int]:
    """So many posts of a paper's sample, of each kind in the paper's proportion; what is over goes to the first ones.

    They are among those that the whole sample would hold, since the lowest ranks are taken.
    """
    whole = sum(paper.quotas.values())
    if not 1 <= samples <= whole:
        raise BadInput(f"samples: {samples:,}: is not within the paper's own {whole:,} ({paper.says})")
    quotas = {kind: quota * samples // whole for kind, quota in paper.quotas.items()}
    over = sorted(quotas, key=lambda kind: -(paper.quotas[kind] * samples % whole))
    for kind in over[: samples - sum(quotas.values())]:
        quotas[kind] += 1
    return quotas


def _check_whole(ranked: Ranked, paper: PaperProtocol) -> None:
    wanted = sum(paper.quotas.values())
    if paper.whole and len(ranked) > wanted:
        raise BadInput(
            f"protocol: paper ({paper.says}): {ranked.dataset.name} has {len(ranked):,} here, so it is not that split"
        )
