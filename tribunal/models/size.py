"""How many tokens a text has, roughly, and whether an answer goes round in circles: without any model's tokenizer."""

from __future__ import annotations

IMAGE_TOKENS = 1500
_LONGEST_PERIOD, _FEWEST_ROUNDS, _SHORTEST_TAIL = 600, 5, 60


def most_tokens(text: str) -> int:
    """No model in use makes more tokens of a text: three ASCII characters a token, and one of any other."""
    ascii_ones = _ascii(text)
    return ascii_ones // 3 + len(text) - ascii_ones


def fewest_tokens(text: str) -> int:
    """No model in use makes fewer tokens of a text: six ASCII characters a token, and three others."""
    ascii_ones = _ascii(text)
    return ascii_ones // 6 + (len(text) - ascii_ones) // 3


def repeats_itself(said: str) -> bool:
    """Whether an answer ends in the same few hundred characters, or fewer, time after time."""
    for period in range(1, min(_LONGEST_PERIOD, len(said) // _FEWEST_ROUNDS) + 1):
        tail = max(_FEWEST_ROUNDS * period, _SHORTEST_TAIL)
        if len(said) >= tail and said[-tail:-period] == said[period - tail :]:
            return True
    return False


def _ascii(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
