"""The leak check: what it finds, what it leaves alone, and that no prompt of ours knows a test set."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import SHARED_DATA
from tribunal.commands import app
from tribunal.eval.leaks.hash_list import hash_posts, read_hash_list
from tribunal.eval.leaks.phrases import count_content, split_runs
from tribunal.eval.leaks.prompt_texts import own_texts, quoted_texts, shipped_texts
from tribunal.eval.leaks.search import ANSWERS, LeakSearch, SetPost, read_posts

LISTS = Path(__file__).parent / "lists"
AT_HAND = {
    "h-vli": "h-vli/train_set.json",
    "unsmile": "korean/unsmile_train.tsv",
    "kodoli": "korean/kodoli.csv",
    "k-mhas": "korean/kmhas_valid.txt",
}
POST = "Newcomers took the last good seats in our library, every day"


def found(prompt: str, *posts: str) -> list[str]:
    search = LeakSearch({"mine": [prompt]})
    return [
        leak.phrase
        for number, post in enumerate(posts)
        for leak in search.leaks_in(SetPost("set", f"{number}", (post,)))
    ]


@pytest.mark.parametrize(
    ("prompt", "post", "phrases"),
    [
        ("Say that they TOOK the last, good seats again", POST, ["took the last good seats"]),
        ("the last good seats in our library stay free", POST, ["the last good seats in our library"]),
        ("the last good seats", POST, []),  # four words are an idiom
        ("what is it that you", "so what is it that you do", []),  # and so are function words
        ("A dull grey morning.", "A dull grey morning", ["a dull grey morning"]),  # a whole post, if a short one
        ("A dull grey morning.", "It was a dull grey morning there", []),
        ('Such as "dull grey".', "It was a dull grey morning there", ["dull grey"]),  # an example, however short
        ('Such as "newcomers", or "they".', POST, ["newcomers"]),
        ('Answer "hate" or “agree”.', "I hate it and agree", []),  # what answers are called
        ("새로 온 사람들이 도서관 자리를", "새로온사람들이 도서관자리를 다 차지했다", ["새로온사람들이도서관자리를"]),
        ("새로 온 사람들", "새로 온 사람들이 왔다", []),
        ("新来的人每天都占图书馆的座位", "他们说新来的人每天都占图书馆的座位", ["新来的人每天都占图书馆的座位"]),
    ],
)  # fmt: skip
def test_a_phrase_of_a_prompt_in_a_post_is_found(prompt: str, post: str, phrases: list[str]) -> None:
    assert found(prompt, post) == phrases


def test_what_a_template_fills_in_is_no_phrase_and_examples_of_a_policy_are(tmp_path: Path) -> None:
    prompt, policy = tmp_path / "mine.md", tmp_path / "mine.toml"
    prompt.write_text("took the last {{ post }} good seats in {% if x %}our library", "utf-8")
    policy.write_text(
        '[[fine]]\nmeaning = "the last good"\nexamples_for = ["last good"]\nexamples_from = ["good"]', "utf-8"
    )
    texts = own_texts([tmp_path])
    assert texts[str(prompt)] == ["took the last \0 good seats in \0our library"]
    search = LeakSearch(texts)
    leaks = list(search.leaks_in(SetPost("set", "7", (POST,))))
    assert [(leak.prompts, leak.phrase, leak.post_id) for leak in leaks] == [((str(policy),), "last good", "7")]


def test_a_hash_list_finds_seven_words_of_a_post_and_holds_no_word_of_it(tmp_path: Path) -> None:
    path = tmp_path / "set.hashes"
    hash_posts("set", [[POST], ["dull grey"]]).write(path)
    held = read_hash_list(path)
    words = POST.split()
    for start in range(len(words) - 6):
        search = LeakSearch({"mine": [" ".join(words[start : start + 7])]})
        assert [leak.dataset for leak in search.leaks_by_list(held)], words[start]
    assert list(LeakSearch({"mine": ["Newcomers are welcome in the library on every day."]}).leaks_by_list(held)) == []
    # Of its seven phrases every third lies there, and of the short post nothing.
    assert held.head.words == len(held.hashes["word"]) == 3
    assert held.false_alarm_rate("word") == 3 / 2**32
    assert not any(word.encode() in path.read_bytes() for word in words if len(word) > 3)


@cache
def prompts_of_ours() -> LeakSearch:
    texts = shipped_texts()
    assert {
        "prompts/arcade/judge.md",
        "prompts/policies/h-vli.toml",
        "prompts/examples.toml",
        "nodes/arcade/cues.py",
    } <= texts.keys()
    return LeakSearch(texts)


@pytest.mark.parametrize("name", AT_HAND)
def test_no_phrase_of_ours_is_in_the_hash_list_of_a_set(name: str) -> None:
    """If it fails by chance (1 phrase in 250,000), the command on the set itself says so; word the phrase anew."""
    assert list(prompts_of_ours().leaks_by_list(read_hash_list(LISTS / f"{name}.hashes"))) == []


@pytest.mark.parametrize("name", AT_HAND)
def test_no_phrase_of_ours_is_in_a_set_that_is_at_hand(name: str) -> None:
    path = SHARED_DATA / AT_HAND[name]
    if not path.exists():
        pytest.skip(f"{path} is not here: set TRIBUNAL_SHARED_DATA to the folder that holds it")
    search = prompts_of_ours()
    assert [leak for post in read_posts(name, path) for leak in search.leaks_in(post)] == []


def test_a_single_word_in_quotation_marks_is_an_answer_or_was_read_by_a_person() -> None:
    """A word alone is in no hash list. Here stand those that no answer is called, and that give none away."""
    read = {"nothate", "otherhate", "undecided", "moderations", "before", "none", "neutral"}
    markdown = {name: texts for name, texts in shipped_texts().items() if name.endswith(".md")}
    single = {
        run.tokens[0]
        for texts in markdown.values()
        for quoted in quoted_texts(texts)
        for run in split_runs(quoted)
        if len(run.tokens) == count_content(run.tokens) == 1
    }
    assert single - ANSWERS <= read


def ran(*arguments: str, ends: int) -> str:
    result = CliRunner().invoke(app, ["prompts", "leaks", *arguments])
    assert result.exit_code == ends, result.output
    return result.output


def written(path: Path, lines: Iterable[str]) -> str:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def test_the_command_names_prompt_phrase_set_and_post_and_exits_1(tmp_path: Path) -> None:
    prompt = written(tmp_path / "mine.md", ["They took the last good seats in our place."])
    clean = written(tmp_path / "clean.md", ["Decide on the post alone."])
    table = written(tmp_path / "posts.jsonl", [json.dumps({"id": n, "text": POST}) for n in range(5)])
    shown = ran(prompt, "--data", table, ends=1)
    assert "took the last good seats in our" in shown
    assert "0, 1, 2 and 2 more" in shown
    assert "library" not in shown
    held = json.loads(ran(prompt, "--data", f"table={table}", "--json", ends=1))
    assert held["leaks"][4] == {
        "prompts": [prompt],
        "phrase": "took the last good seats in our",
        "dataset": "table",
        "post_id": "4",
    }
    assert "1 file against 5 posts: 0 phrases found" in ran(clean, "--data", table, ends=0)
    lists = str(tmp_path / "posts.hashes")
    assert "3 phrases of words and 0 of characters in 5 posts" in ran("--data", table, "--write-hashes", lists, ends=0)
    assert "(hash list)" in ran(prompt, "--hashes", lists, ends=1)
    assert "is there already" in ran("--data", table, "--write-hashes", lists, ends=2)
    word = written(tmp_path / "word.md", ['Such as "newcomers".'])
    ran(word, "--data", table, ends=1)
    ran(word, "--data", table, "--allow", "Newcomers", ends=0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "data: in which set? give --data, or a hash list with --hashes"),
        (("--write-hashes", "new"), "write-hashes: of which set? give --data"),
        (("{prompt}", "--hashes", "{here}"), "is no hash list; make one with --write-hashes"),
        (("nowhere.md", "--hashes", "{here}"), "nowhere.md: No such file or directory; give a prompt set or a policy"),
        (("{prompt}", "--dataset", "sbic+ghc", "--data", "x"), "give one path for each set: sbic=PATH and ghc=PATH"),
        (("{prompt}", "--data", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    names = {"here": __file__, "prompt": written(tmp_path / "mine.md", ["Decide."])}
    assert says in " ".join(ran(*(each.format(**names) for each in arguments), ends=2).split())
