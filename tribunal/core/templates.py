"""The environment of the project's Jinja templates: pages, reports and printed text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tribunal.core.text import make_visible

if TYPE_CHECKING:
    from jinja2 import Environment


def make_template_environment(
    read_template: Callable[[str], str],
    show_value: Callable[[Any], Any],
    *,
    autoescape: bool = True,
) -> Environment:
    """Return an environment in which a missing variable is an error.

    Args:
        read_template: returns a template's text by its name.
        show_value: returns the text to print for a value; foreign text is made visible there. Markup is unchanged.
        autoescape: escape values for HTML; without it `show_value` escapes them.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(read_template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=autoescape,  # noqa: S701  # without it, `show_value` escapes
        finalize=show_value,
    )


def visible_value(value: Any) -> Any:
    """Return what stands for a value on a page: foreign text with all of it visible, which Jinja escapes then."""
    from markupsafe import Markup

    if value is None:
        return "–"
    return (
        make_visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )
