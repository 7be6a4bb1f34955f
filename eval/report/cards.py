"""Write the model card and the data statement of a run, from what its run.json and its measures hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tribunal.eval.report.page import render_template
from tribunal.eval.runs.prices import warn_of_changed_servers

if TYPE_CHECKING:
    from tribunal.schema import JSON

CARD, STATEMENT = "model-card.md", "data-statement.md"
_TEMPLATES = {CARD: "model_card.md.jinja", STATEMENT: "data_statement.md.jinja"}


def render_cards(run: JSON, measured: JSON) -> dict[str, str]:
    """Return the model card and the data statement of a run, by the names of their files.

    Args:
        run: its run.json.
        measured: its metrics.json.
    """
    values = {"run": run, "m": measured, "changed_servers": warn_of_changed_servers(run.get("served") or {})}
    return {name: render_template(template, values) for name, template in _TEMPLATES.items()}
