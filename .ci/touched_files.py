"""Print which files and functions of ours one judgement by `baseline` and the rehearsal model runs through.

    ./run python .ci/touched_files.py [GRAPH]

The judgement counts from the start of the graph to its record; imports don't count. A first judgement, which isn't
counted, loads all that is loaded once.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tribunal import ajudge

PROJECT = Path(__file__).resolve().parents[1]
POST = "Immigrants: the weeds in our garden."


def is_ours(code: CodeType) -> bool:
    """Return whether code is a function of this project, and no module, class body or comprehension."""
    path = Path(code.co_filename).resolve()
    return (
        path.suffix == ".py"
        and path.is_relative_to(PROJECT)
        and ".venv" not in path.parts
        and not code.co_name.startswith("<")
    )


def count_calls(graph: str) -> Counter[tuple[str, str]]:
    """Return how often each function ran in one judgement: by its file and its qualified name."""
    calls: Counter[CodeType] = Counter()

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    async def judge_twice() -> None:
        await ajudge(POST, graph=graph)
        sys.setprofile(note_call)
        await ajudge(POST, graph=graph)
        sys.setprofile(None)

    asyncio.run(judge_twice())
    ours: Counter[tuple[str, str]] = Counter()
    for code, times in calls.items():
        if is_ours(code) and code.co_filename != __file__:
            ours[str(Path(code.co_filename).resolve().relative_to(PROJECT)), code.co_qualname] += (
                times
            )
    return ours


def describe_calls(calls: Counter[tuple[str, str]]) -> str:
    """Return each file with its functions, and the sums, as lines."""
    lines = []
    for file in sorted({file for file, _ in calls}):
        names = [
            f"{name} ×{times}" if times > 1 else name
            for (each, name), times in calls.items()
            if each == file
        ]
        lines += [f"{file}: {len(names)}", f"    {', '.join(names)}"]
    return "\n".join(
        [
            *lines,
            f"{len({file for file, _ in calls})} files, {len(calls)} functions, {calls.total()} calls",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(
        describe_calls(count_calls(sys.argv[1] if len(sys.argv) > 1 else "baseline")) + "\n"
    )
