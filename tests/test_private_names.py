"""No private name of a foreign package is used, but for those on a list that only shrinks."""

from __future__ import annotations

import pytest

from tests import PROJECT
from tests.foreign_private import Use, uses, uses_in

LIST = PROJECT / "tests" / "foreign_private.txt"
WAY_OUT = (
    "a release of that package may take it away. Use what its documentation names: an argument, a hook, an event, a"
    " public method; or write the few lines of your own. tests/foreign_private.txt is for what has no such way"
)


def listed() -> dict[Use, str]:
    """Return what the list allows, each with its reason."""
    found = {}
    for line in LIST.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            use, _, reason = line.partition(" -- ")
            file, _, what = use.partition(": ")
            found[Use(file, what)] = reason
    return found


@pytest.mark.long
def test_the_private_names_of_foreign_packages_are_on_a_list_that_only_shrinks() -> None:
    allowed, used = listed(), uses()
    new = sorted(f"{file}: {what}" for file, what in used - allowed.keys())
    assert not new, f"{WAY_OUT}:\n" + "\n".join(new)
    gone = sorted(f"{file}: {what}" for file, what in allowed.keys() - used)
    assert not gone, (
        "no longer used; take these lines from tests/foreign_private.txt:\n" + "\n".join(gone)
    )
    assert all(allowed.values()), "each line of the list ends with a reason: file: what -- reason"


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def end(connection): connection._thread.daemon = True", {"attribute _thread"}),
        ("def end(connection): return getattr(connection, '_tx', None)", {"string _tx"}),
        ("def end(connection): return vars(connection)['_tx']", {"string _tx"}),
        ("def swap(model, own): return model.model_copy(update={'_tx': own})", {"string _tx"}),
        (
            "from inspect_ai.log._recorders import create",
            {"import inspect_ai.log._recorders.create"},
        ),
        ("import asyncio._x", {"import asyncio._x"}),
        ("def swap(graph, kind): graph.__class__ = kind", {"assigns graph.__class__"}),
        (
            "import threading\nclass Mine(threading.Thread):\n def _bootstrap(self): pass",
            {"overrides _bootstrap"},
        ),
        (
            "import threading\nclass Mine(threading.Thread):\n def run(self): self._stop()",
            {"attribute _stop"},
        ),
        ("class Mine:\n _held = 1\n def run(self): return self._held, self.__dict__", set()),
        ("def change(row): return row._replace(a=1), row._asdict()", set()),
    ],
)
def test_the_check_finds(source: str, found: set[str]) -> None:
    assert uses_in(source) == found
