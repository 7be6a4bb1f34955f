"""For the tests of a pipeline of one's own; nothing is needed for them but pytest.

    from tribunal.testing import check_piece

    def test_the_glossary_keeps_to_its_contract():
        [written] = check_piece(look_up, {"text": "the weeds"})

    def test_the_judge_is_shown_the_glossary(scripted_model):
        scripted_model.answer("judge", {"category": "Religious", "explanation": "As G1 says."})
        record = tribunal.judge("the weeds", graph="graphs/glossary.py:graph", rounds=1)
        assert "[G1]" in scripted_model.told("judge")[0]

`check_piece` runs a piece alone and holds it to its contract. `scripted_model` is a fixture that pytest finds by
itself: a model server on this machine, spoken to over the wire as a provider's is (`ScriptedModel`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

import tribunal.prompts
from tribunal.core.schema_filling import fill_schema
from tribunal.errors import BadInput
from tribunal.process.files import read_text
from tribunal.testing.messages import Answer, Fault, Reply, Request, Script
from tribunal.testing.server import ScriptedServer

__all__ = ["Fault", "Reply", "Request", "ScriptedModel", "check_piece", "scripted_model"]

_HEADING = re.compile(r"^# Your part: .*$", re.MULTILINE)
_QUOTED = re.compile(r"^<<<([\w-]+) ([0-9a-f]{16})\n(.*?)\n\1 \2>>>$", re.DOTALL | re.MULTILINE)


class ScriptedModel(ScriptedServer):
    """A model that answers as a test scripts it, and records its requests.

    Where the test says nothing for a part, the model gives a short answer that the part's form allows: one cue, the
    first category. So all parts have something to speak of, and are asked. A part is named as its prompt's file is:
    `judge`, `gatekeeper`, `defence`, or `arcade/judge` where others are called the same. A part with a prompt of one's
    own is named by its heading: `# Your part: the Librarian`.
    """

    def __init__(self) -> None:
        """Begin with short answers for every part."""
        super().__init__(self._play)
        self._answers: dict[str, list[Answer | Script]] = {}

    def answer(self, part: str, *answers: Answer | Script) -> None:
        """Say what a part answers from now on, one answer a request; the last one stands for all that follow.

        Args:
            part: which.
            answers: each the fields of its form as a dict, a text, a `Reply`, a `Fault`, or a function of the
                `Request`.

        Raises:
            BadInput: there is no such part, or there is no answer.
        """
        known = {name for _, names in _parts() for name in names}
        if part not in known and not part.startswith("# "):
            raise BadInput(
                f"part: {part!r}: there is none; the parts are {', '.join(sorted(known))}"
            )
        if not answers:
            raise BadInput(f"answers: there is none for {part}; give one or more")
        self._answers[part] = list(answers)

    def told(self, part: str) -> list[str]:
        """Return all words that the model was shown when it was asked for this part, one text a request."""
        return [request.text for request in self.requests if part in _names(request)]

    def _play(self, request: Request) -> Any:
        names = _names(request)
        said = next((self._answers[each] for each in self._answers if each in names), None)
        if said is None:
            return Reply(_short(request) if request.schema else "scripted words")
        each = said.pop(0) if len(said) > 1 else said[0]
        return each(request) if callable(each) else each


@pytest.fixture
def scripted_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedModel]:
    """Give a `ScriptedModel` that sits in every seat, in `tribunal.judge` and in graphs, where a test names no model.

    The keys and addresses of the machine are hidden, and a data folder of the test's own is used. The test ends in an
    error if an answer could not be given.
    """
    from tribunal.models.registry import PROVIDERS

    for provider in PROVIDERS.values():
        for name in (*provider.keys, *provider.base_urls):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRIBUNAL_DATA", str(tmp_path / "tribunal-data"))
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedModel() as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        monkeypatch.setenv("TRIBUNAL_MODEL", "openai:scripted")
        yield model


def check_piece(piece: Any, *states: Mapping[str, Any], **settings: Any) -> list[dict[str, Any]]:
    """Run a piece alone, once for each state, and hold it to its contract.

    Args:
        piece: a node or a compiled graph, declared with `piece`, or one of `tribunal.pieces`.
        states: what lies on the table before the piece: the post, as `text` and `image`, and the channels that it needs
            or uses. What isn't declared isn't shown to it.
        settings: the fields of `Context`.

    Returns:
        What it wrote, a dict of channels for each state.

    Raises:
        WrongComposition: a channel that it declares is written for none of the states; it writes or reads a channel
            that it doesn't declare; or it writes what the court can't read. `channel` is the one that shows it.
        BadInput: a state lacks a channel that the piece needs, or has one that it doesn't declare.
    """
    from tribunal.process.loops import run_in_background
    from tribunal.testing.piece_runner import run_alone

    return run_in_background(lambda: run_alone(piece, states or ({"text": "A post."},), settings))


@lru_cache(maxsize=1)
def _parts() -> tuple[tuple[re.Pattern[str], tuple[str, str]], ...]:
    """Return the pattern of each part's heading, and its names."""
    found = []
    for path in sorted(Path(tribunal.prompts.__file__).parent.glob("*/*.md")):
        heading = _HEADING.match(read_text(path))
        if heading:
            pattern = ".+".join(re.escape(each) for each in re.split(r"\{\{.*?\}\}", heading[0]))
            found.append((re.compile(pattern), (path.stem, f"{path.parent.name}/{path.stem}")))
    return tuple(found)


def _names(request: Request) -> set[str]:
    """Return the names of the part that a request asks for; none where its prompt has no heading."""
    heading = _HEADING.search(_QUOTED.sub("", request.text))  # a post may hold a heading too
    if heading is None:
        return set()
    return {
        heading[0],
        *(name for pattern, names in _parts() if pattern.fullmatch(heading[0]) for name in names),
    }


def _short(request: Request) -> Any:
    """Return a short answer that the form of a request allows, in texts that all differ."""
    number = count(1)
    return fill_schema(
        cast("Any", request.schema), lambda: f"scripted words {request.index}.{next(number)}"
    )
