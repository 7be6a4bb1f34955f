"""What the tests of `tribunal view` share: a run worked out by hand, and a browser that reads pages as lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lxml import html  # type: ignore[import-untyped]
from starlette.testclient import TestClient

from tests.result_lines import line, write_run
from tribunal.eval.view.app import create_app
from tribunal.eval.view.viewed_runs import ViewedRuns

CALL = {
    "id": "1", "role": "judge", "seat": "judge", "temperature": 0.0, "prompt_sha": "f" * 64, "shown": ["text"],
}  # fmt: skip


def call(model: str, tokens: int) -> dict[str, Any]:
    return {**CALL, "model": model, "prompt_tokens": tokens, "completion_tokens": 10}


def sample(
    post: str, gold: int | None, answer: int | str, *, model: str = "openai:a", tokens: int = 90, **said: Any
) -> Any:
    usage = {"calls": said.pop("calls", 1), "prompt_tokens": tokens, "completion_tokens": 10}
    return line(post, gold, answer, calls=[call(model, tokens)], usage=usage, **said)


# Labels: 0 NotHate, 1 Racist, 2 Sexist, 3 Homophobic.
SAMPLES = [
    sample("a", 1, 1, confidence=0.9, track="fast_track", seconds=4.0, text="The weeds in our garden",
           fields={"difficulty": "Easy", "smi_pattern": "A", "functionality": "slur", "target": ["x", "y"]}),
    sample("b", 0, 0, confidence=0.8, track="dismissed", seconds=3.0, tokens=490,
           fields={"difficulty": "Hard", "smi_pattern": "B", "target": "x"}),
    sample("c", 0, 2, confidence=0.7, track="deep_dive", seconds=9.0, model="openai:b", calls=5,
           fields={"difficulty": "Hard", "smi_pattern": "A"}, explanation="it speaks of weeds, and calls them women"),
    sample("d", 3, 0, confidence=0.2, uncertain=True, track="dismissed", fields={"difficulty": "Easy"}),
    sample("e", 1, 3, confidence=0.6, fields={"difficulty": "Hard"}, language="ko"),
    sample("f", 1, "refusal", fault={"seat": "judge", "role": "judge", "model": "openai:a", "kind": "content_filter"}),
    sample("g", None, 1, confidence=0.5),
    sample("a", 1, 0, repeat=1, confidence=0.4),
]  # fmt: skip


class Browser:
    """Reads pages over HTTP."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def get(self, address: str, **given: Any) -> Any:
        return self.client.get(address, **given)

    def page(self, address: str, status: int = 200) -> Any:
        """A page's elements."""
        answer = self.get(address)
        assert answer.status_code == status, answer.text
        return html.fromstring(answer.text)

    def posts(self, query: str = "", path: str = "/samples") -> list[str]:
        """The posts of a list, those of a later repeat with its number."""
        found = []
        for row in self.page(f"{path}?{query}").xpath("//tr[@data-row]"):
            repeat = row.xpath("string(.//th/span[starts-with(., 'repeat')])").removeprefix("repeat ")
            found.append(row.xpath("string(.//th/a)") + repeat)
        return found

    def counts(self, facet: str, query: str = "", path: str = "/samples") -> dict[str, int]:
        """What a facet counts."""
        at = f"//nav[@class='facets']/details[summary = '{facet}']//li"
        return {
            each.xpath("string(.//*[@class='value'])"): int(each.xpath("string(.//*[@class='count'])"))
            for each in self.page(f"{path}?{query}").xpath(at)
        }


@contextmanager
def looking(*folders: Path, **given: Any) -> Iterator[Browser]:
    """A browser at the pages of these runs, read to their end."""
    runs = ViewedRuns(folders, **given)
    runs.begin_reading()
    try:
        for run in runs.runs.values():
            run.index.catch_up()
            if run.texts is not None:
                run.texts.wait(20)
        with TestClient(create_app(runs), base_url="http://127.0.0.1:8000") as client:
            yield Browser(client)
    finally:
        runs.close()


def written(folder: Path, samples: Any = SAMPLES, **run: Any) -> Path:
    return write_run(folder, samples, **run)
