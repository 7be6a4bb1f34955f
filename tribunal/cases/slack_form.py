"""Messages in the form that incoming webhooks of Slack take, and of Mattermost and others that are like it.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks has the form.
"""

from __future__ import annotations

from collections.abc import Sequence

from tribunal.schema import JSON
from tribunal.text import one_line

_MOST_FACT = 600  # characters of one fact
_MOST_QUOTE = 1500  # characters of a post; a section takes 3,000, after its marks are escaped
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Slack's mark-up begins with <. Mattermost also takes a bare @channel, and Markdown's links and images; a character
# without a width after their marks leaves them words.
_BREAKS = {"@": "@\u200b", "](": "]\u200b("}


def slack_message(title: str, facts: Sequence[tuple[str, str]], quote: str, link: str) -> JSON:
    """Return a message: a title, facts below it, a post, and a link. Whatever was written by others is plain words.

    Args:
        title: ours.
        facts: names, which are ours, and values. Those without a value are left out.
        quote: the text of the post, if it is to be shown.
        link: an address; one that doesn't begin with http is shown as it is, and an empty one isn't.
    """
    rows = [f"*{name}:* {escape_slack(_shorten(one_line(value), _MOST_FACT))}" for name, value in facts if value]
    shown = escape_slack(_shorten(one_line(quote), _MOST_QUOTE))
    to_desk = f"<{_escape(link)}|Open at the desk>" if link.startswith("http") else _escape(link)
    parts = ["\n".join([f"*{title}*", *rows]), *([f"> {shown}"] if shown else []), *([to_desk] if link else [])]
    return {
        "text": "\n".join(parts),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}} for part in parts],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def escape_slack(words: str) -> str:
    """Return words in which neither Slack nor Mattermost finds mark-up, a link, a person or a channel."""
    for mark, broken in _BREAKS.items():
        words = words.replace(mark, broken)
    return _escape(words)


def _escape(words: str) -> str:
    return "".join(_ESCAPES.get(each, each) for each in words)


def _shorten(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
