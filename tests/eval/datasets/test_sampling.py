"""Which posts a run takes: the same for the same seed anywhere, balanced as asked, and the papers' own samples."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tables import table
from tribunal.errors import BadInput
from tribunal.eval.datasets import (
    DATASETS,
    Dataset,
    DatasetSpec,
    Gold,
    Sample,
    binary_label,
    open_dataset,
)
from tribunal.eval.datasets.sampling import SamplePlan, choose_samples


def dataset(
    folder: Path, made: Callable[[], Iterator[Sample]] | Sequence[Sample], base: str = "table"
) -> Dataset:
    """A set of these posts, with everything else as one of ours has it."""
    file = folder / "posts.csv"
    file.write_text("text\n", encoding="utf-8")
    posts = made if callable(made) else lambda: iter(made)
    spec: DatasetSpec = replace(DATASETS[base], read=lambda _: posts(), mapped=True)
    return Dataset(spec, file)


def numbered(count: int, **fields: Sequence[Any]) -> list[Sample]:
    """Posts "0", "1", …, whose fields go through the given values in turn; of these `gold` is the label."""
    made = []
    for number in range(count):
        held = {name: values[number % len(values)] for name, values in fields.items()}
        gold = held.pop("gold", None)
        made.append(Sample(id=str(number), text=f"post {number}", gold=gold, fields=held))
    return made


def ids(plan: SamplePlan) -> list[str]:
    found = [post.id for post in plan]
    assert len(plan) == len(found)
    return found


HATE, NOT = binary_label(True, "hate"), binary_label(False, "not")
PATTERNS = ("000", "011", "101", "111", "100", "010", "001", "110")

# ----------------------------------------------------------------------------------------------------- all and some


def test_what_is_chosen_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """Written down once: a change of hash, of version or of platform would change published runs."""
    assert ids(choose_samples(dataset(tmp_path, numbered(100)), samples=5, seed=42)) == [
        "7",
        "27",
        "66",
        "71",
        "90",
    ]


@given(
    count=st.integers(1, 60),
    small=st.integers(1, 60),
    large=st.integers(1, 60),
    seed=st.integers(-5, 2**70),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_smaller_sample_lies_within_a_larger_whatever_the_order(
    tmp_path: Path, count: int, small: int, large: int, seed: int
) -> None:
    small, large = sorted((min(small, count), min(large, count)))
    posts = numbered(count)
    few, many = (
        set(ids(choose_samples(dataset(tmp_path, posts), samples=size, seed=seed)))
        for size in (small, large)
    )
    backwards = set(ids(choose_samples(dataset(tmp_path, posts[::-1]), samples=large, seed=seed)))
    assert few <= many == backwards
    assert (len(few), len(many)) == (small, large)


def test_every_post_is_as_likely_as_another(tmp_path: Path) -> None:
    held = dataset(tmp_path, numbered(20))
    drawn = Counter(
        name for seed in range(400) for name in ids(choose_samples(held, samples=5, seed=seed))
    )
    assert len(drawn) == 20
    # of 100; four standard deviations are 35
    assert all(60 <= count <= 145 for count in drawn.values())


@pytest.mark.parametrize(
    ("asked", "said"),
    table(__file__, "what_cannot_be_chosen_is_said"),
)
def test_what_cannot_be_chosen_is_said(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        choose_samples(dataset(tmp_path, numbered(10)), **asked)


def test_a_set_without_posts_says_why(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\n,1\nb,\n", encoding="utf-8")
    with pytest.raises(
        BadInput,
        match=r"there is no post in .*t\.csv \(table: 2 rows were left out: neither text nor",
    ):
        choose_samples(open_dataset("table", tmp_path / "t.csv"))


def test_two_posts_of_one_id_are_refused(tmp_path: Path) -> None:
    posts = numbered(10)
    posts[7] = posts[7].model_copy(update={"id": "2"})
    for asked in ({}, {"samples": 3}):
        with pytest.raises(
            BadInput,
            match="posts 3 and 8 have the same id '2'; ids must differ; name another id column",
        ):
            choose_samples(dataset(tmp_path, posts), **asked)  # type: ignore[arg-type]


def test_a_wrong_row_at_the_end_is_found_before_the_first_post(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\n" + "a,1\n" * 99 + "b,maybe\n", encoding="utf-8")
    with pytest.raises(BadInput, match="row 100: label = 'maybe'"):
        choose_samples(open_dataset("table", tmp_path / "t.csv"), samples=1)


def test_files_that_change_underneath_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "a\n" * 1100, encoding="utf-8")
    plan = choose_samples(open_dataset("table", tmp_path / "t.csv"), samples=1050)
    (tmp_path / "t.csv").write_text("text\na\n", encoding="utf-8")
    with pytest.raises(BadInput, match="its files have changed since the posts were chosen"):
        list(plan)


def test_a_few_posts_stay_those_that_were_chosen_whatever_becomes_of_their_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text(
        "text,id\n" + "".join(f"a {n},{n}\n" for n in range(50)), encoding="utf-8"
    )
    posts = open_dataset("table", tmp_path / "t.csv")
    whole = [post.id for post in choose_samples(posts, samples=50)]
    plans = [choose_samples(posts, samples=9), choose_samples(posts, samples=9, shuffled=True)]
    (tmp_path / "t.csv").unlink()
    for plan in plans:
        held = list(plan)
        assert [post.text for post in held] == [f"a {post.id}" for post in held]
        assert list(plan) == held
    assert {post.id for post in plans[0]} == {post.id for post in plans[1]} < set(whole)
    assert [post.id for post in plans[0]] == sorted((post.id for post in plans[0]), key=whole.index)


# ----------------------------------------------------------------------------------------------------------- balanced


def patterned(**counts: int) -> list[Sample]:
    names = [name.removeprefix("p") for name, count in counts.items() for _ in range(count)]
    return [
        Sample(id=str(n), text="x", fields={"smi_pattern": name}) for n, name in enumerate(names)
    ]


def test_fewer_of_a_balanced_sample_are_among_more(tmp_path: Path) -> None:
    held = dataset(tmp_path, patterned(p000=60, p111=60, p011=60, p101=60, p110=3, p001=9))
    chosen = [
        set(ids(choose_samples(held, samples=count, balance="pattern", seed=4)))
        for count in range(1, 120)
    ]
    assert all(one < other for one, other in itertools.pairwise(chosen))


@given(
    counts=st.lists(st.integers(0, 12), min_size=8, max_size=8),
    samples=st.integers(1, 60),
    seed=st.integers(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_quota_holds_for_any_counts(
    tmp_path: Path, counts: list[int], samples: int, seed: int
) -> None:
    if samples > sum(counts):
        return
    made = dict(zip((f"p{pattern}" for pattern in PATTERNS), counts, strict=True))
    plan = choose_samples(
        dataset(tmp_path, patterned(**made)), samples=samples, seed=seed, balance="pattern"
    )
    found = Counter(post.fields["smi_pattern"] for post in plan)
    quota = samples // sum(count > 0 for count in counts)
    assert found.total() == samples == len(plan)
    assert all(
        found[pattern] >= min(quota, count) for pattern, count in zip(PATTERNS, counts, strict=True)
    )
    # As even as the set allows: whoever has more than another by two took what the other hadn't got.
    most = max(found.values())
    assert all(
        found[pattern] in (count, most, most - 1)
        for pattern, count in zip(PATTERNS, counts, strict=True)
    )


def test_as_many_of_each_label(tmp_path: Path) -> None:
    fine = [
        Gold(label=label, scheme="fine", positive=label > 0, name=str(label))
        for label in (0, 0, 0, 1, 5)
    ]
    held = dataset(tmp_path, [*numbered(100, gold=fine), Sample(id="unlabelled", text="x")])
    found = Counter(
        post.gold.label if post.gold else None
        for post in choose_samples(held, samples=15, balance="label")
    )
    assert found == {0: 15, 1: 15, 5: 15}
    with pytest.raises(
        BadInput, match=r"samples: 21 label 0, .*, which has 60 label 0, 20 label 1, 20 label 5"
    ):
        choose_samples(held, samples=21, balance="label")


def test_as_many_of_each_value_of_a_field_or_of_several(tmp_path: Path) -> None:
    held = dataset(
        tmp_path, numbered(120, gold=(HATE, NOT), topic=("a", "b", "c", None), loud=(True, False))
    )
    found = Counter(
        post.fields["topic"] for post in choose_samples(held, samples=7, balance="topic")
    )
    assert found == {"a": 7, "b": 7, "c": 7}
    found = Counter(
        (post.fields["topic"], post.gold)
        for post in choose_samples(held, samples=4, balance="topic, label")
    )
    assert found == {("a", HATE): 4, ("b", NOT): 4, ("c", HATE): 4}
    with pytest.raises(
        BadInput, match=r"samples: 31 topic a, .*, which has 30 topic a, 30 topic b, 30 topic c"
    ):
        choose_samples(held, samples=31, balance="topic")
    many = dataset(tmp_path, numbered(200, topic=tuple(map(str, range(200)))))
    with pytest.raises(BadInput, match="balance: topic: has more than 100 values in table"):
        choose_samples(many, samples=1, balance="topic")
    apart = dataset(tmp_path, numbered(10, topic=("a", None), loud=(None, True)))
    with pytest.raises(BadInput, match="balance: no post of table has topic and loud"):
        choose_samples(apart, samples=1, balance="topic,loud")


# ------------------------------------------------------------------------------------------------------ the papers' own


def test_the_papers_samples_are_those_of_the_papers() -> None:
    quotas = {
        name: (spec.protocol.split, dict(spec.protocol.quotas))
        for name, spec in DATASETS.items()
        if spec.protocol
    }
    korean = {"hate": 200, "not hate": 200}
    assert quotas == {
        "h-vli": ("test", {"posts": 1178}),
        "fhm": ("dev", {"posts": 500}),
        "sbic": ("all", {"hate": 500, "not hate": 500}),
        "ghc": ("all", {"implicit hate": 252, "not hate": 252}),
        "4chan": ("all", {"hate": 704, "not hate": 704}),
        "k-haters": ("test", korean),
        "k-mhas": ("test", korean),
        "kold": ("all", korean),
        "kodoli": ("all", korean),
        "unsmile": ("valid", korean),
        "mmsd": ("test", {"posts": 500}),
        "gossipcop": ("all", {"posts": 500}),
    }


def test_hvli_takes_its_whole_test_split_and_no_other(tmp_path: Path) -> None:
    def saved(count: int, name: str = "test_set.json") -> Dataset:
        post = {
            "tweet_text": "x",
            "image_path": "",
            "text_label": 0,
            "image_label": 0,
            "final_label": 0,
        }
        (tmp_path / name).write_text(json.dumps({str(number): post for number in range(count)}))
        return open_dataset("h-vli", tmp_path / name)

    assert len(choose_samples(saved(1178), protocol="paper")) == 1178
    with pytest.raises(
        BadInput, match=r"1,178 posts: too many for h-vli \(test\), which has 1,177 posts"
    ):
        choose_samples(saved(1177), protocol="paper")
    with pytest.raises(BadInput, match="h-vli has 1,179 here, so it is not that split"):
        choose_samples(saved(1179), protocol="paper")
    with pytest.raises(BadInput, match="the paper's is of the split test, not train"):
        choose_samples(saved(1178, "train_set.json"), protocol="paper")


def test_sbic_takes_500_each_of_the_posts_whose_who_target_is_nought(tmp_path: Path) -> None:
    posts = numbered(6000, gold=(HATE, NOT), who_target=(0.0, 0.0, 1.0, None, 0.5))
    found = list(choose_samples(dataset(tmp_path, posts, "sbic"), protocol="paper"))
    assert Counter(post.gold for post in found) == {HATE: 500, NOT: 500}
    assert {post.fields["who_target"] for post in found} == {0.0}


def test_ghc_takes_the_implicit_hate(tmp_path: Path) -> None:
    posts = numbered(
        2520, gold=(HATE, NOT, NOT, NOT, HATE), implicit=(True, False, False, False, False)
    )
    found = list(choose_samples(dataset(tmp_path, posts, "ghc"), protocol="paper"))
    assert Counter((post.gold, post.fields["implicit"]) for post in found) == {
        (HATE, True): 252,
        (NOT, False): 252,
    }
    with pytest.raises(
        BadInput, match=r"252 implicit hate, 252 not hate: .* has 251 implicit hate, "
    ):
        choose_samples(dataset(tmp_path, posts[:1255], "ghc"), protocol="paper")


def test_the_papers_seed_stands_above_the_callers(tmp_path: Path) -> None:
    held = dataset(tmp_path, numbered(2000), "gossipcop")
    assert ids(choose_samples(held, protocol="paper", seed=1)) == ids(
        choose_samples(held, samples=500, seed=42)
    )


# ------------------------------------------------------------------------------------------------------------- memory


def test_memory_does_not_grow_with_the_set(tmp_path: Path) -> None:
    def posts(count: int) -> Callable[[], Iterator[Sample]]:
        return lambda: (
            Sample(id=f"post-{n}", text="a text of some length " * 20) for n in range(count)
        )

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            assert sum(1 for _ in choose_samples(dataset(tmp_path, posts(count)))) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    import numpy as np  # its import is no part of what is measured

    assert np.__version__
    peak(100)
    small, large = peak(2_000), peak(22_000)
    assert (large - small) / 20_000 < 60, "bytes a post"
