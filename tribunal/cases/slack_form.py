"""Messages in the form that incoming webhooks of Slack take, and of Mattermost and others that are like it.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks has the form.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import accumulate

from tribunal.schema import JSON
from tribunal.text import one_line

# Characters, of the 3,000 that a section takes, after marks are escaped: a message with more is refused whole.
_MOST_FACT, _MOST_QUOTE = 200, 2000
# Slack's mentions and links begin with <. Mattermost also takes a bare @channel, and Markdown's links and images; a
# character without a width after their marks leaves them words.
_BREAKS = {"@": "@\u200b", "](": "]\u200b("}


def slack_message(title: str, facts: Sequence[tuple[str, str]], quotes: Sequence[tuple[str, str]], link: str) -> JSON:
    """Return a message: a title, facts below it, quotations, and a link.

    What others wrote mentions nobody, and gives no link another name. Their bold, code and bare addresses may show as
    such.

    Args:
        title: ours.
        facts: names, which are ours, and short values. Those without a value are left out.
        quotes: the same, for longer words.
        link: an address; one that doesn't begin with http is shown as it is, and an empty one isn't.
    """
    parts = ["\n".join([f"*{title}*", *(_row(name, value, _MOST_FACT) for name, value in facts if value)])]
    parts += [_row(name, value, _MOST_QUOTE) for name, value in quotes if value]
    if link:
        parts.append(f"<{escape_slack(link)}|Open at the desk>" if link.startswith("http") else escape_slack(link))
    return {
        "text": "\n".join(parts),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}} for part in parts],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _row(name: str, value: str, most: int) -> str:
    words = one_line(value)
    for mark, broken in _BREAKS.items():
        words = words.replace(mark, broken)
    return f"*{name}:* {escape_slack(words, most)}"


def escape_slack(words: str, most: int | None = None) -> str:
    """Return words with the marks of Slack's mentions and links escaped, cut to so many characters at most."""
    escaped = [html.escape(each, quote=False) for each in words]
    if most is None or sum(map(len, escaped)) <= most:
        return "".join(escaped)
    ends = accumulate(map(len, escaped))
    return "".join(each for each, end in zip(escaped, ends, strict=True) if end < most) + "…"
