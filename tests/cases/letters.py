"""What the tests of explanations share: a court, a person who writes to the poster, and a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from tests.court import court_script, cue
from tests.doubles import Fault, Reply, Request

POST = "They are rats, all Muslims. Women too."
CUE = cue("“rats, all Muslims”", target_group="Muslims")
OTHER = cue("“Women too”", target_group="women", characteristic="gender", category="Sexist")
VERDICT = {"category": "Religious", "explanation": "C1 decides it, though C2 falls."}
GOOD: dict[str, Any] = {
    "title": "About your post",
    "text": "We decided that your post is against our rules, because it calls people “rats, all Muslims”.",
    "grounds": [{"id": "G1", "words": "rats, all Muslims"}],
    "decision": "hate_speech",
    "category": "Religious",
}
FRENCH: dict[str, Any] = {
    "title": "Votre publication enfreint nos règles",
    "text": "Nous avons décidé que votre publication enfreint nos règles, car elle traite des personnes de "
    "“rats, all Muslims” en raison de leur foi.",
    "grounds": [{"id": "G1", "words": "rats, all Muslims"}],
    "decision": "hate_speech",
    "category": "Religious",
}


def is_explainer(request: Request) -> bool:
    return "# Your part: explain the decision" in request.text


def told(*answers: Any, **court: Any) -> Any:
    """A court, and whoever explains its decision: these answers, one a request."""
    left = list(answers)
    held = court_script(
        explicit=True, **{"indictment": {"cues": [CUE, OTHER]}, "judge": VERDICT, **court}
    )

    def script(request: Request) -> Reply | Fault:
        if not is_explainer(request):
            return held(request)
        answer = left.pop(0)
        return answer if isinstance(answer, Reply | Fault) else Reply(answer)

    return script


class Page(HTMLParser):
    """A page as it is read: its elements with their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
