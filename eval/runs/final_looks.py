"""Looks at a test split, which are counted: whoever tunes on a test long enough fits it.

A look is noted in the run.json of its runs (`final`), and in `test_looks.jsonl`, two folders above them: beside the
folder of the comparison, so that comparisons that lie side by side are counted together.
"""

from __future__ import annotations

from pathlib import Path

from tribunal.eval.runs.ledger import count_entry, read_entries
from tribunal.schema import JSON

LOOKS = "test_looks.jsonl"
_OF_THE_DATA = ("data", "split", "sha256")


def count_look(folder: Path, data: JSON, made_by: JSON) -> JSON:
    """Count a look at a test split, and return what its runs note of it: `look` is its number.

    The same look that goes on keeps its number.

    Args:
        folder: of the comparison.
        data: the set's `name`, `split` and `sha256`, as run.json has them.
        made_by: what looks.

    Raises:
        BadInput: the ledger can't be read or written.
    """
    of_data: JSON = {"data": data["name"], "split": data["split"], "sha256": data["sha256"]}
    entry = {"comparison": folder.resolve().name, **of_data, **made_by}
    look = count_entry(
        folder.resolve().parent / LOOKS,
        entry,
        same=list(entry),
        is_counted=lambda each: all(each.get(name) == of_data[name] for name in _OF_THE_DATA),
        called="look at a test split",
    )
    return {"look": look, **of_data}


def final_look_in_words(run: JSON, folder: Path) -> str | None:
    """Return in a sentence how often the test split of a run was looked at, or None if the run was no such look.

    Args:
        run: its run.json.
        folder: its folder.
    """
    noted = run.get("final")
    if not isinstance(noted, dict) or not isinstance(look := noted.get("look"), int):
        return None
    entries = read_entries(folder.resolve().parent.parent / LOOKS)
    known = [each for each in entries if all(each.get(name) == noted.get(name) for name in _OF_THE_DATA)]
    return (
        f"A final look at the split {noted.get('split')} of {noted.get('data')}: number {look} of "
        f"{max(len(known), look)} comparisons of prompts made on it here. Each look beyond the first makes its figures "
        "more optimistic"
    )
