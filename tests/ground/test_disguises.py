"""Disguised words are written plainly, and ordinary words, numbers and addresses stay as they are."""

from __future__ import annotations

import pytest

from tribunal.core.disguises import undo_disguises

DISGUISED = {
    "They are v3rm1n": "They are vermin",
    "1mm1gr4nt5 h0me": "immigrants home",
    "what 4 p@ss": "",
    "l33t sp34k f00lz": "l33t speak foolz",
    "c h i c k e n s can't drive": "chickens can't drive",
    "c.h.i.c.k.e.n.s": "chickens",
    "chi\u0441k\u0435ns": "chickens",
    "\U0001d4cc\U0001d45c\U0001d45f\U0001d459\U0001d451": "world",
    "\uff43\uff48\uff49\uff43\uff4b": "chick",
}
PLAIN = (
    "Good morning, everybody.", "covid19, mp3, 4chan, h2o", "the 1st and the 5th of 1980", "an A320neo at 60fps",
    "https://a.example/c1d3e and foo@mail.example", "hello @us3r", "4 m\u00b2, 1\u00ba", "A B C", "U.S.A.",
    "\u0416\u0435\u043d\u0449\u0438\u043d\u044b", "\ub098\ub294 \ud559\uc0dd\uc774\ub2e4", "Wow!Great", "",
)  # fmt: skip


@pytest.mark.parametrize(("text", "plain"), DISGUISED.items())
def test_disguised_words_are_written_plainly(text: str, plain: str) -> None:
    assert undo_disguises(text) == (plain or text.replace("p@ss", "pass"))


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_not_disguised_stays(text: str) -> None:
    assert undo_disguises(text) == ""
