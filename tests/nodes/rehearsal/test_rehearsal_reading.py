"""What the rehearsal model finds in a post, and what excuses it: the rules of docs/rehearsal.md one by one."""

from __future__ import annotations

import pytest

from tests.nodes.rehearsal.rehearsed import DIRECT, H_VLI, asked
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.nodes.rehearsal.lexicon import LEXICON, category_of_group, protected_name
from tribunal.nodes.rehearsal.reading import MOST_WEIGHED, read_post


def excuse_in(text: str) -> str | None:
    """What excuses the first of the things found in a post, the open attacks first."""
    reading = read_post(text, H_VLI)
    first = (*reading.direct, *reading.implied)[0]
    return first.excuse.kind if first.excuse else None


@pytest.mark.parametrize(
    ("text", "excuse"),
    [
        ("Republicans are scum.", "unprotected"),
        ("My landlord is scum.", "unprotected"),
        ("Immigrants aren't vermin.", "denied"),
        ("Muslims should not be banned.", "denied"),
        ("Nobody should call refugees parasites.", "denied"),
        ("Women don't belong in the kitchen.", "denied"),
        ("We immigrants are such savages at the buffet lol", "self"),
        ("As a woman, I think women are inferior at parking.", "self"),
        ("Calling immigrants vermin is disgusting.", "condemned"),
        ('"Immigrants are vermin"? Shame on you.', "condemned"),
        ("It is a myth that Jews control the media.", "condemned"),
        ("My uncle said refugees are parasites.", "reported"),
        ("The museum shows propaganda that called Jews vermin.", "reported"),
        ("Refugees are animals /s", "satire"),
        ('There is a note on the wall, "refugees are scum", again', "quoted"),
        ("That woman from the bank is scum.", "one person"),
        ("Women are always brave and amazing.", "praised"),
        # None of these is an excuse.
        (DIRECT, None),
        ("“Immigrants are vermin.”", None),
        ("I'm not racist but refugees are parasites.", None),
        ("He said refugees are parasites, and he is right.", None),
        ("As a Christian, I think Hindus are vermin.", None),
        ("Why don't we deport all immigrants?", None),
        ("Refugees are not only parasites", None),
        ("You filthy Jew", None),
        ("There are refugees in town. They are vermin.", None),
        ("The poor are scum", None),
    ],
)
def test_what_excuses_an_attack(text: str, excuse: str | None) -> None:
    assert excuse_in(text) == excuse


@pytest.mark.parametrize(
    "text",
    [
        "The poor dog sleeps all day, what filth on the carpet",
        "Women at my office told me the fridge is disgusting",
        "Muslims are kind. My car is trash.",
        "I hate when immigrants are treated badly",
        "The women cleaned the filth off the street",
        "You are scum",
        "The weeds in the park",
        "Our cats are not like yours",
        "Refugees hope to go back to school",
        "Women get out of the car, then go home after work",
        "Girls run the world",
        "Thanks for your kind words",
        "Women like animals and get rid of old clothes",
        "",
        "\u200b\ud800",
    ],
)
def test_what_is_no_attack(text: str) -> None:
    assert read_post(text, H_VLI).matches == ()
    assert asked(CLASSIFIER, text)["category"] == "NotHate"


@pytest.mark.parametrize("sign", [sign.name for sign in LEXICON.signs if sign.type != "Direct"])
def test_every_sign_is_found(sign: str) -> None:
    examples = {
        "kitchen": "she belongs in the kitchen", "appliance": "women are dishwashers",
        "dishwasher": "my wife and the dishwasher", "real": "real men don't cry", "jobs": "they took our jobs",
        "burden": "refugees live off benefits", "control": "jews own the banks",
        "not like us": "those people are not like us",
        "those people": "those people never learn", "how they are": "you know how they are",
        "weeds": "rotten apples in our country", "infestation": "a swarm of refugees", "flood": "a flood of refugees",
        "sell-by date": "old people are past their sell-by date", "ability": "asians can't drive",
        "all alike": "typical woman",
    }  # fmt: skip
    assert sign in [match.sign.name for match in read_post(examples[sign], H_VLI).implied]


@pytest.mark.parametrize(
    "text",
    [
        "Immi\u200bgrants are ver\u00admin",
        "IMMIGRANTS   ARE\tVERMIN",
        "Ｉｍｍｉｇｒａｎｔｓ are vermin",
        "Immigrants are ver\x00min",
        "Immi\x1bgrants are\x07 ver\x9fmin",
        "Immi\u2062grants are ver\u202emin",
        "Immi\U000e0041grants are ver\ufe0fmin",
        "Immi\udb40\udc41grants are vermin",  # the halves of a hidden character
        "Immigrants are ver\u3164min",
    ],
)
def test_hidden_characters_and_odd_spelling_hide_nothing(text: str) -> None:
    [match] = read_post(text, H_VLI).direct
    assert (match.sign.name, match.matched.casefold()) == ("dehumanising", "vermin")


@pytest.mark.parametrize("mark", ["“”", "„“", "«»", "‘’", "‚‘", "‹›", '""', "''"])
def test_quotation_marks_of_every_kind_quote(mark: str) -> None:
    assert (
        excuse_in(f"There is a note on the wall, {mark[0]}refugees are scum{mark[1]}, again")
        == "quoted"
    )


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\x85", "\u2028", "\u2029"])
def test_a_sentence_ends_at_a_line_break_of_any_kind(line_break: str) -> None:
    assert read_post(f"Immigrants in town{line_break}what filth on the carpet", H_VLI).matches == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # 80 characters at most stand between a group and an attack.
        (f"Immigrants {'x' * 78} vermin", True),
        (f"Immigrants {'x' * 79} vermin", False),
        (f"They are vermin, {'x' * 80} of the immigrants", False),
        # "They" stands for the last group of the sentence before, however long that sentence is.
        (f"Refugees {'came to our old town ' * 10}. They are vermin.", True),
        (f"Refugees {'came to our old town ' * 10}. They are disgusting.", True),
        ("Refugees came. These people are disgusting.", True),
        (f"Refugees came. They {'x' * 80} are vermin.", False),
        ("Refugees came. It rained. They are vermin.", False),
        # It is the same with what is implied.
        ("Refugees came. They are lazy.", True),
        ("Refugees came. Lazy, all of it.", False),
    ],
)
def test_how_far_an_attack_reaches(text: str, found: bool) -> None:
    assert bool(read_post(text, H_VLI).matches) is found


@pytest.mark.parametrize(
    ("text", "excuse"),
    [
        # Three words of the post, short ones among them, stand outside the quotation.
        ('He is so: "immigrants are vermin".', "quoted"),
        ('So it is: "immigrants are vermin".', "quoted"),
        ('He\'s so: "immigrants are vermin".', None),  # "he's" is one word
        # A negation is one of the five words before, in the same clause, and so in the same sentence.
        ("Never in my life are immigrants vermin.", None),
        ("Never in my own life are immigrants vermin.", None),
        ("Refugees are in no way at all never once vermin.", "denied"),
        ("Refugees are not far. They are vermin.", None),
        ("Refugees are not vermin. They are vermin.", None),
        # Praise stands in the same sentence, and at most 300 characters away.
        ("Refugees are lovely. They are lazy.", None),
        ("Lovely, lazy refugees", "praised"),
        (f"Lazy refugees {'and so on ' * 28} lovely", "praised"),
        (f"Lazy refugees {'and so on ' * 32} lovely", None),
        # So does everything else: one sentence, 300 characters.
        (f"Refugees are vermin {'and so on ' * 28} which is wrong", "condemned"),
        (f"Refugees are vermin {'and so on ' * 32} which is wrong", None),
        ("Refugees are vermin. It rained. That is wrong.", None),
    ],
)
def test_how_far_an_excuse_reaches(text: str, excuse: str | None) -> None:
    assert excuse_in(text) == excuse


def test_at_most_200_matches_of_a_post_are_weighed() -> None:
    post = "Immigrants are not vermin. " * MOST_WEIGHED
    assert len(read_post(post, H_VLI).unexcused) == 0
    assert len(read_post(post + "Immigrants are vermin.", H_VLI).unexcused) == 0
    assert (
        len(
            read_post(
                post.removesuffix("Immigrants are not vermin. ") + "Immigrants are vermin.", H_VLI
            ).unexcused
        )
        == 1
    )


def test_the_one_without_an_excuse_comes_first() -> None:
    reading = read_post(
        "We should not say refugees are vermin. Yet refugees are vermin. Jews should not be banned.",
        H_VLI,
    )
    assert [(match.key, match.excuse is None) for match in reading.direct] == [
        ("immigrants", True),
        ("jews", False),
    ]


def test_groups_and_categories_of_the_shipped_policy() -> None:
    found = {
        key: (protected_name(H_VLI, key), category_of_group(H_VLI, "fine", key))
        for key in LEXICON.groups
    }
    assert found == {
        "immigrants": ("immigration status", "OtherHate"),
        "foreigners": ("nationality", "Racist"),
        "race": ("race", "Racist"),
        "women": ("gender", "Sexist"),
        "men": ("gender", "Sexist"),
        "gay": ("sexual orientation", "Homophobic"),
        "trans": ("gender identity", "Homophobic"),
        "muslims": ("religion", "Religious"),
        "jews": ("religion", "Religious"),
        "believers": ("religion", "Religious"),
        "disabled": ("disability", "OtherHate"),
        "old": ("age", "OtherHate"),
        "fat": ("body size", "OtherHate"),
        "poor": ("social class", "OtherHate"),
        "politics": (None, "OtherHate"),
        "trades": (None, "OtherHate"),
    }
    assert [category_of_group(H_VLI, "fine", group) for group in ("religion", "sex", "age")] == [
        "Religious", "Sexist", "OtherHate",
    ]  # fmt: skip
