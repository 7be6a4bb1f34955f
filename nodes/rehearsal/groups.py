"""The lexicon of groups: words for people, and how policies speak of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the words for a group, and how policies speak of it, as patterns, the closest first.

    `mixed` marks words for different groups under one head: a Christian who speaks of Hindus isn't speaking of
    themselves.
    """

    many: tuple[str, ...]
    one: tuple[str, ...]
    groups: tuple[str, ...]
    categories: tuple[str, ...]
    mixed: bool = False


# fmt: off
GROUPS: dict[str, Group] = {
    "immigrants": Group(
        ("immigrants", "migrants", "refugees", "asylum seekers", "newcomers"),
        ("immigrant", "migrant", "refugee", "asylum seeker"),
        ("immigra", "migra", "refugee", "asylum", "national", "ethnic", r"\brace\b"),
        ("immigra", "migra", "refugee", "xenophob", "national", "racis", "ethnic", r"\brace\b"),
    ),
    "foreigners": Group(
        ("foreigners", "mexicans", "arabs", "africans", "indians", "pakistanis", "poles", "romanians",
         "chinese people"),
        ("foreigner", "mexican", "african", "pakistani"),
        ("national", "origin", "xenophob", "foreign", "ethnic", r"\brace\b", "migra"),
        ("national", "xenophob", "foreign", "racis", "ethnic", r"\brace\b"),
        mixed=True,
    ),
    "race": Group(
        ("black people", "black men", "black women", "white people", "white men", "white women", "asian people",
         "asian women", "asians", "latinos", "brown people", "roma people", "people of colour", "people of color"),
        ("black person", "black man", "black woman", "white person", "white man", "white woman", "asian person",
         "asian woman", "latino"),
        (r"\brace\b", "racial", "ethnic", "skin", "colou?r", "national"),
        ("racis", r"\brace\b", "racial", "ethnic", "skin"),
        mixed=True,
    ),
    "women": Group(
        ("women", "females", "girls", "ladies", "wives"),
        ("woman", "girl", "lady"),
        (r"\bwomen\b", r"\bgender\b", r"\bsex\b"),
        ("sexis", "misogyn", r"\bwomen\b", r"\bsex\b(?! orient)", r"\bgender\b(?! ident)"),
    ),
    "men": Group(
        ("men", "males", "boys"),
        (),
        (r"\bmen\b", r"\bgender\b", r"\bsex\b"),
        ("sexis", r"\bmen\b", r"\bsex\b(?! orient)", r"\bgender\b(?! ident)"),
    ),
    "gay": Group(
        ("gay people", "gay men", "gays", "lesbians", "homosexuals", "bisexuals", "queer people", "lgbt people"),
        ("gay person", "gay man", "lesbian", "homosexual"),
        ("sexual orient", "lgbt", "queer", r"\bgay\b", "sexualit"),
        ("homophob", "sexual orient", "lgbt", "queer", r"\bgay\b"),
    ),
    "trans": Group(
        ("trans people", "transgender people", "trans women", "trans men"),
        ("trans person", "trans woman", "trans man"),
        ("gender ident", r"\btrans", "lgbt", r"\bgender\b", r"\bsex\b", "sexual orient"),
        ("transphob", "gender ident", "lgbt", "homophob", r"\bgender\b"),
    ),
    "muslims": Group(
        ("muslims", "muslim people"), ("muslim",),
        ("muslim", "islam", "religio", "faith", "belief"), ("islamophob", "muslim", "religio", "faith", "belief"),
    ),
    "jews": Group(
        ("jews", "jewish people"), ("jew",),
        ("jew", "antisemit", "religio", "faith", "belief"), ("antisemit", "jew", "religio", "faith", "belief"),
    ),
    "believers": Group(
        ("christians", "catholics", "hindus", "sikhs", "buddhists", "atheists"),
        ("christian", "catholic", "hindu", "sikh", "buddhist", "atheist"),
        ("religio", "faith", "belief"),
        ("religio", "faith", "belief"),
        mixed=True,
    ),
    "disabled": Group(
        ("disabled people", "people with disabilities", "wheelchair users", "autistic people", "deaf people",
         "blind people", "the disabled"),
        ("disabled person", "wheelchair user"),
        ("disab", "handicap", "impair"),
        ("ableis", "disab", "handicap"),
    ),
    "old": Group(
        ("old people", "elderly people", "the elderly", "boomers", "pensioners", "seniors"),
        ("old person", "boomer", "pensioner"),
        (r"\bage\b", "elder", "older"),
        ("ageis", r"\bage\b", "elder", "older"),
    ),
    "fat": Group(
        ("fat people", "overweight people", "obese people"), ("fat person",),
        (r"\bbody", "weight", r"\bfat\b", r"\bsize\b"), (r"\bbody", "weight", r"\bfat\b"),
    ),
    "poor": Group(
        ("poor people", "the poor", "homeless people", "the homeless", "benefit claimants"), ("poor person",),
        (r"\bclass\b", "poverty", r"\bpoor\b", "homeless", "caste"), (r"\bclass\b", "classis", "poverty", r"\bpoor\b"),
    ),
    "politics": Group(
        ("democrats", "republicans", "liberals", "conservatives", "tories", "socialists", "communists", "leftists",
         "progressives", "feminists", "vegans", "nazis", "fascists", "politicians", "capitalists"),
        ("democrat", "republican", "tory", "socialist", "communist", "feminist", "politician"),
        ("politic", "party", "ideolog", "opinion"),
        ("politic", "party", "ideolog", "opinion"),
        mixed=True,
    ),
    "trades": Group(
        ("landlords", "bankers", "journalists", "lawyers", "police officers", "estate agents", "referees",
         "influencers", "scammers", "spammers", "football fans"),
        ("landlord", "banker", "journalist", "lawyer", "referee", "scammer"),
        ("occupation", "profession", "trade"),
        ("occupation", "profession", "trade"),
        mixed=True,
    ),
}
# fmt: on

# "Those people", "they": whoever is meant, they are set apart as not belonging.
UNNAMED = Group((), (), ("ethnic", r"\brace\b", "national"), ("racis", "ethnic", r"\brace\b"))
