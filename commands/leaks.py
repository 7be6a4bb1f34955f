"""`tribunal prompts leaks`: no phrase of a prompt, policy or example stands in a test set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tribunal.commands.completing import dataset_names
from tribunal.commands.options import parse_pairs
from tribunal.commands.run_options import parse_data
from tribunal.commands.shared_options import AsJson, Columns
from tribunal.errors import BadInput
from tribunal.terminal import print_table, say, say_json
from tribunal.text import count_noun

if TYPE_CHECKING:
    from tribunal.eval.leaks.search import Leak, SetPost

_NAMED = 3  # posts that a line of the table names


def check_leaks(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Prompt sets and policy files. Default: all shipped ones.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="The set's folder or file. Of several sets: NAME=PATH.")
    ] = None,
    dataset: Annotated[
        str, typer.Option(help="The set's name; several as sbic+ghc.", autocompletion=dataset_names)
    ] = "table",
    columns: Columns = None,
    hashes: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A hash list, in place of a set or beside it; may be given again."),
    ] = None,
    write_hashes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a hash list of the set, and check nothing. It doesn't hold the set."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word that may stand alone in quotation marks; may be given again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for phrases of prompts, policies and examples in a test set; exit 1 if one stands there.

    A phrase is five words, ten characters of Korean, Chinese or Thai, a shorter post, or what stands in quotation
    marks.
    """
    from tribunal.eval.leaks.hash_list import hash_posts, read_hash_list
    from tribunal.eval.leaks.prompt_texts import own_texts, shipped_texts
    from tribunal.eval.leaks.search import LeakSearch

    if write_hashes is not None:
        if not data:
            raise BadInput("write-hashes: of which set? give --data")
        made = hash_posts(dataset, (post.texts for post in _read_sets(dataset, data, columns)))
        made.write(write_hashes)
        rates = [(unit, made.false_alarm_rate(unit)) for unit in ("word", "character")]
        errs = ", ".join(f"1 in {1 / rate:,.0f} ({unit}s)" for unit, rate in rates if rate)
        say(
            f"{write_hashes}: hashes of {made.head.words:,} phrases of words and {made.head.characters:,} of "
            f"characters in {count_noun(made.head.posts, 'post')}; "
            f"taken for one of the set, and not in it: {errs or 'none'}"
        )
        return
    if not data and not hashes:
        raise BadInput("data: in which set? give --data, or a hash list with --hashes")
    texts = own_texts(paths) if paths else shipped_texts()
    search = LeakSearch(texts, allow or ())
    found = [leak for post in _read_sets(dataset, data or [], columns) for leak in search.leaks_in(post)]
    for path in hashes or []:
        found += search.leaks_by_list(read_hash_list(path))
    if as_json:
        say_json({"files": len(texts), "posts": search.posts, "leaks": [each.dump() for each in found]})
    else:
        _print_leaks(found)
        where = [count_noun(search.posts, "post")] * bool(data) + [str(path) for path in hashes or []]
        phrases = len({leak.phrase for leak in found})
        say(f"{count_noun(len(texts), 'file')} against {' and '.join(where)}: {count_noun(phrases, 'phrase')} found")
    if found:
        raise typer.Exit(1)


def _read_sets(names: str, data: list[str], columns: list[str] | None) -> Iterator[SetPost]:
    from tribunal.eval.datasets import PLUS
    from tribunal.eval.leaks.search import read_posts

    if not data:
        return
    place, wanted = parse_data(data), names.split(PLUS)
    by_name = {names: place} if isinstance(place, Path) else place
    if set(by_name) != set(wanted):
        raise BadInput(f"data: give one path for each set: {' and '.join(f'{each}=PATH' for each in wanted)}")
    own = parse_pairs(columns or [], "columns", "ROLE=NAME")
    for name, path in by_name.items():
        yield from read_posts(name, path, own)


def _print_leaks(found: list[Leak]) -> None:
    posts: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for leak in found:
        posts[", ".join(leak.prompts), leak.phrase, leak.dataset] += [leak.post_id] if leak.post_id else []
    if posts:
        print_table(("prompt", "phrase", "set", "posts"), [(*key, _name_posts(ids)) for key, ids in posts.items()])


def _name_posts(ids: list[str]) -> str:
    more = f" and {len(ids) - _NAMED:,} more" * (len(ids) > _NAMED)
    return f"{', '.join(ids[:_NAMED])}{more}" if ids else "(hash list)"
