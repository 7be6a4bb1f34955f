"""A piece of one's own: what is known of the words of a post."""

from tribunal.pieces import Case, Evidence, piece

GLOSSARY = {
    "weeds": "Said of people, “weeds” is an old dehumanising image: unwanted, and to be rooted out.",
    "guests": "Said of citizens, “guests” denies that they belong.",
}


@piece(needs=["post"], writes=["evidence"], letter="G")
async def look_up(state: Case) -> Case:
    """Return the glossary's entries for words of the post."""
    found = [word for word in GLOSSARY if word in state["post"]["text"].casefold()]
    return {
        "evidence": [
            Evidence.of(f"G{n}", GLOSSARY[w], "supports", w) for n, w in enumerate(found, start=1)
        ]
    }
