"""How far annotators agree: Fleiss' kappa, over repeats of one agent and over agents (PREDICT, section 4.1).

The standard kappa, by statsmodels. PREDICT's formula has the same terms under exchanged names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from tribunal.schema import Record


def fleiss_kappa(ratings: Iterable[Sequence[Hashable | None]]) -> float:
    """Fleiss' kappa of several raters over several subjects.

    Args:
        ratings: for each subject the label that each rater gave; subjects where a rater is missing (None) are left
            out, since the measure takes the same number of raters for every subject.

    Returns:
        1.0 for full agreement, 0.0 for what chance would give; 1.0 where only one label was ever given.

    Raises:
        ValueError: fewer than one complete subject, or fewer than two raters, or rows of different length.
    """
    import numpy as np
    from statsmodels.stats.inter_rater import aggregate_raters
    from statsmodels.stats.inter_rater import fleiss_kappa as kappa

    complete = [list(row) for row in ratings if all(label is not None for label in row)]
    raters = {len(row) for row in complete}
    if not complete or len(raters) != 1 or raters.pop() < 2:
        raise ValueError("kappa takes at least one subject that the same two or more raters all rated")
    labels = sorted({label for row in complete for label in row}, key=str)
    if len(labels) == 1:
        return 1.0
    numbered = np.array([[labels.index(label) for label in row] for row in complete])
    table, _ = aggregate_raters(numbered, n_cat=len(labels))
    return float(kappa(table, method="fleiss"))


def over_agents(records: Iterable[Record]) -> float:
    """Kappa over the perspectives of many posts: posts are the subjects, perspectives the raters."""
    stances = [{opinion.id: opinion.stance for opinion in record.opinions} for record in records]
    agents = sorted({agent for row in stances for agent in row})
    return fleiss_kappa([[row.get(agent) for agent in agents] for row in stances])


def over_repeats(repeats: Iterable[Mapping[str, Record]], agent: str | None = None) -> float:
    """Kappa over repeats: posts are the subjects, repeats the raters.

    Args:
        repeats: for each repeat its records by post id.
        agent: a perspective, whose stance is compared; None compares the verdicts.
    """
    drawn = list(repeats)
    posts = sorted({post for repeat in drawn for post in repeat})
    return fleiss_kappa([[_label(repeat.get(post), agent) for repeat in drawn] for post in posts])


def _label(record: Record | None, agent: str | None) -> Hashable | None:
    if record is None:
        return None
    if agent is None:
        return record.label
    return next((opinion.stance for opinion in record.opinions if opinion.id == agent), None)
