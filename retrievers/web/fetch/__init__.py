"""The one way out to the web: a page or a picture by its URL, or a refusal that says why."""

USER_AGENT = "Tribunal/0.1 (+https://github.com/tribunal-court/tribunal)"
"""What every request says it is; robots.txt addresses us by the name before the slash."""
