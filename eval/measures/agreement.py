"""How far raters agree: Fleiss' kappa, over repeats of one agent and over agents (PREDICT, section 4.1).

The standard kappa, by statsmodels. PREDICT's formula has the same terms under exchanged names.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def fleiss_kappa(ratings: Sequence[Sequence[Hashable]]) -> float | None:
    """Fleiss' kappa of several raters over several subjects.

    Args:
        ratings: for each subject the label that each rater gave; the same raters for all.

    Returns:
        1.0 for full agreement, 0.0 for what chance would give; 1.0 where only one label was ever given; None where
        there is no subject, or fewer than two raters.

    Raises:
        ValueError: rows of different length.
    """
    import numpy as np
    from statsmodels.stats.inter_rater import aggregate_raters
    from statsmodels.stats.inter_rater import fleiss_kappa as kappa

    if not ratings or len(ratings[0]) < 2:
        return None
    labels = sorted({label for row in ratings for label in row}, key=str)
    if len(labels) == 1:
        return 1.0
    numbered = np.array([[labels.index(label) for label in row] for row in ratings])
    table, _ = aggregate_raters(numbered, n_cat=len(labels))
    return float(kappa(table, method="fleiss"))
