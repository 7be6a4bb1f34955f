"""What a shell is offered for a value that is being typed: the names there are. `tribunal --install-completion`."""

from __future__ import annotations

from collections.abc import Callable


def _beginning(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """What offers the names that begin with what is typed; nothing where they can't be read."""

    def offer(incomplete: str) -> list[str]:
        from tribunal.errors import BadInput

        try:
            return [each for each in names() if each.startswith(incomplete)]
        except (BadInput, OSError):  # a shell that waits for a word has no use for an error
            return []

    return offer


def _graphs() -> list[str]:
    from tribunal.graphs import GRAPHS
    from tribunal.plugins import names

    return [*GRAPHS, *names("tribunal.graphs")]


def _policies() -> list[str]:
    from tribunal.prompts.policy import shipped

    return shipped()


def _protocols() -> list[str]:
    from tribunal.eval.protocols.declared import protocols

    return list(protocols())


def _experiments() -> list[str]:
    from tribunal.eval.experiments.declared import experiments

    return list(experiments())


def _datasets() -> list[str]:
    from tribunal.eval.datasets import DATASETS
    from tribunal.plugins import names

    return [*DATASETS, *names("tribunal.datasets")]


def _perspectives() -> list[str]:
    from tribunal.retrievers.perspectives.opening import names

    return names()


def _precedents() -> list[str]:
    from tribunal.retrievers.precedents.opening import names

    return names()


graph_names, policy_names = _beginning(_graphs), _beginning(_policies)
protocol_names, perspective_names = _beginning(_protocols), _beginning(_perspectives)
precedent_names, experiment_names = _beginning(_precedents), _beginning(_experiments)
_dataset_names = _beginning(_datasets)


def dataset_names(incomplete: str) -> list[str]:
    """The names for the last of several sets that are joined by +."""
    before, plus, last = incomplete.rpartition("+")
    return [f"{before}{plus}{each}" for each in _dataset_names(last) if each not in before.split("+")]


def perspective_list(incomplete: str) -> list[str]:
    """The names for the last of several that are separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    said = before.split(",")
    offered = [each for each in perspective_names(last) if each not in said]
    return [f"{before}{comma}{each}" for each in ([*offered] if comma else [*offered, *_words(last)])]


def _words(incomplete: str) -> list[str]:
    return [each for each in ("all", "none") if each.startswith(incomplete)]
