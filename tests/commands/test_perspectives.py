"""`tribunal perspectives`: what is printed, where, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tribunal.commands.perspectives import app
from tribunal.retrievers.perspectives.perspective import EXAMPLES, PAPER, user_folder

ROWS = "sentences,offensiveness\n" + "\n".join(
    f"{text},{label}"
    for text, label in [
        ("강변에 꽃이 피었다", "NOT"),
        ("강변에 눈이 내렸다", "NOT"),
        ("그 사람 참 한심하다", "LIKELY"),
        ("다들 참 한심하다", "OFFEN"),
    ]
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "kodoli.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "set"


def run(*arguments: str, ends: int = 0) -> tuple[str, str]:
    """What a command prints: on standard output, and on standard error."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == ends, result.output
    if ends:
        assert result.stderr.strip().splitlines()[-1].startswith("tribunal: error: ")
    return result.stdout, result.stderr


def test_build_show_search_and_list(data: Path) -> None:
    out, err = run("build", "kodoli", "--data", str(data))
    assert "kodoli: 4 texts (2 Offensive, 2 Not Offensive)" in out
    assert "hashing, 384 numbers a text, exact search, recall@3 1.000" in out
    assert str(user_folder() / "kodoli") in out
    assert "4/4" in err  # the progress bar keeps off standard output

    out, _ = run("show", "kodoli")
    for part in ("hate:       Offensive", "sarcasm", "https://github.com/cardy20/KODOLI", "kodoli.csv", "hash checked"):
        assert part in out

    out, _ = run("search", "kodoli", "다들 참 한심하네", "-k", "2")
    assert out.splitlines()[1].strip() == "다들 참 한심하다"
    assert out.count("  row ") == 2
    out, _ = run("search", "kodoli", "다들 참 한심하다!")
    assert "다들 참 한심하다" not in out  # a text is not its own example

    out, _ = run("list")
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert set(lines) == {*PAPER, *EXAMPLES}
    assert "hashing" in lines["kodoli"]
    assert "not built" in lines["kold"]
    assert "in memory" in lines[EXAMPLES[0]]


def test_an_example_is_shown_and_searched_with_nothing_built() -> None:
    out, _ = run("show", "example-newsroom")
    assert "7 hate, 7 not, in its own file" in out
    out, _ = run("search", "example-newsroom", "please correct the year", "-k", "1")
    assert "Civil" in out


def test_an_index_elsewhere_is_used_by_its_path(data: Path, tmp_path: Path) -> None:
    run("build", "kodoli", "--data", str(data), "--out", str(tmp_path / "out"))
    out, _ = run("search", str(tmp_path / "out" / "kodoli"), "강변에", "-k", "1")
    assert "Not Offensive" in out


def test_a_perspective_built_from_a_path_is_listed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'name = "own"\nlanguage = "ko"\ncriterion = "Rude."\n[source]\nfiles = ["kodoli.csv"]\ntext = "sentences"\n'
        'obtain = "here"\n[source.label]\ncolumn = "offensiveness"\nnot_hate = ["NOT"]\n'
    )
    run("build", str(tmp_path / "own.toml"), "--data", str(data))
    assert "its index" in next(line for line in run("list")[0].splitlines() if line.startswith("own "))
    assert "2 Hate, 2 Not Hate" in run("show", "own")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("build", "kold", "--data", "."),
            "no kold_v1.json in .; the set is obtained from https://github.com/boychaboy",
        ),
        (("build", "nobody", "--data", "."), "perspective 'nobody': there is none of that name"),
        (("build", "example-harm", "--data", "."), "there is nothing to build"),
        (("build", "kodoli", "--data", "{data}", "--embedding", "openai:x"), "no key; set OPENAI_API_KEY"),
        (("build", "kodoli", "--data", "{data}", "--embedding", "magic"), "'magic': not an embedding"),
        (("show", "kodoli"), "build it with: tribunal perspectives build kodoli --data DIR"),
        (("search", "kodoli", "x"), "build it with: tribunal perspectives build kodoli --data DIR"),
        (("search", "./none.toml", "x"), "No such file"),
    ],
)
def test_errors_are_one_line_with_the_way_out(data: Path, arguments: tuple[str, ...], said: str) -> None:
    _, err = run(*(part.replace("{data}", str(data)) for part in arguments), ends=2)
    [line] = [line for line in err.splitlines() if line.startswith("tribunal: error: ")]
    assert said in line


def test_show_finds_a_file_that_was_changed(data: Path) -> None:
    run("build", "kodoli", "--data", str(data))
    [path] = (user_folder() / "kodoli").glob("rows-*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"2")
    _, err = run("show", "kodoli", ends=2)
    assert "has another hash; build it again with: tribunal perspectives build kodoli --data DIR" in err
