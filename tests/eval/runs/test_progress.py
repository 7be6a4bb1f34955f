"""How a run goes, as a person sees it: one line at any width, and counts of the whole run where it goes on."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.doubles import Reply, ScriptedServer
from tests.tables import table
from tribunal.process.screen import Screen
from tribunal.runner.tally import ProgressLine, ResultCounts, RunTally

ANSWER = Reply(
    {"category": "NotHate", "explanation": "words"}, prompt_tokens=1000, completion_tokens=100
)


def tally(**other: Any) -> RunTally:
    """12,345 of 50,000 posts, 3,000 of them from before; 9,345 in 800 seconds are 11.7 a second."""
    held = {
        "total": 50_000, "done": 9_345, "before": 3_000, "in_flight": 32, "started": time.monotonic() - 800,
        "outcomes": Counter(positive=4_000, negative=5_335, failure=10), "calls": 70_000, "tokens": 600_000,
        "cost": 34.5, "earlier": ResultCounts(Counter(negative=2_997, failure=2, refusal=1), 20_000, 150_000, 10.25),
    }  # fmt: skip
    return RunTally(**{**held, **other})


def seen(width: int, stands: RunTally, *, priced: bool = True) -> list[str]:
    """The lines of a terminal of this width."""
    file = io.StringIO()
    screen = Screen(
        file=file, width=width, force_terminal=True, color_system=None, legacy_windows=False
    )
    screen.print(ProgressLine(stands, priced=priced))
    return file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "there", "left_out"),
    table(__file__, "any_width_is_one_line"),
)
def test_any_width_is_one_line(width: int, there: list[str], left_out: list[str]) -> None:
    [line] = seen(width, tally())
    assert len(line) < width
    assert all(words in line for words in there), line
    assert not any(words in line for words in left_out), line


def test_what_is_said_of_pace_and_money() -> None:
    slow = tally(done=8, before=0, earlier=ResultCounts())  # 8 in 800 seconds
    assert "  36.0/h  " in seen(120, slow)[0]
    assert "  1.5/min  " in seen(120, tally(done=20))[0]
    assert "cost ≥ 34.5000" in seen(120, tally(earlier=ResultCounts(unpriced=3)))[0]
    assert "cost unknown" in seen(120, tally(cost=0.0, unpriced=9, earlier=ResultCounts()))[0]
    assert "cost" not in seen(120, tally(), priced=False)[0]
    assert "left" not in seen(120, tally(done=0))[0], "before the first post there is no pace"


def on_a_terminal(command: list[str], environment: dict[str, str], columns: int) -> tuple[int, str]:
    """A command's status, and what a terminal of so many columns was sent."""
    import fcntl
    import pty
    import struct
    import termios

    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    sent = b""
    try:
        while piece := os.read(terminal, 65536):
            sent += piece
    except OSError:  # how Linux says that the other end has gone
        pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sent.decode()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals here")
def test_a_run_that_goes_on_shows_the_whole_of_it(tmp_path: Path) -> None:
    rows = "".join(f"p{place},word-{place}.,{place % 2}\n" for place in range(6))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    (tmp_path / "prices.toml").write_text('["openai:scripted"]\ninput = 2.0\noutput = 10.0\n')
    command = [
        sys.executable, "-c", "import tribunal; tribunal.main()", "eval", "--dataset", "table", "--data", "posts.csv",
        "--out", "run", "--graph", "baseline", "--model", "openai:scripted", "--prices", "prices.toml",
    ]  # fmt: skip
    with ScriptedServer(lambda request: ANSWER) as server:
        environment = {
            **os.environ, "PYTHONPATH": str(PROJECT), "OPENAI_BASE_URL": f"{server.url}/v1", "TERM": "xterm-256color",
        }  # fmt: skip
        environment.pop("COLUMNS", None)
        assert on_a_terminal(command, environment, 80)[0] == 0
        results = tmp_path / "run" / "results.jsonl"
        kept = results.read_bytes().splitlines(keepends=True)
        results.write_bytes(b"".join(kept[:4]))
        status, sent = on_a_terminal(command, environment, 80)
    assert status == 0, sent
    lines = [
        re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r")
        for line in re.split(r"[\r\n]+", sent)
    ]
    shown = [line for line in lines if "/6" in line]
    assert shown[0].startswith("━"), "the bar is there before the first post is decided"
    assert "4/6  cost 0.0120" in shown[0], (
        "1,000 tokens at 2 a million and 100 at 10 are 0.003 a post"
    )
    assert re.search(r"6/6  [\d.]+/(s|min)  cost 0\.0180  0:00:00 left", shown[-1])
    assert max(len(line) for line in shown) < 80
    assert (
        "6 processed (2 now, 4 before): 6 negative, 6 calls, 6,600 tokens, cost 0.0180"
        in " ".join(lines)
    )
    assert (
        json.loads((tmp_path / "run" / "prices.json").read_bytes())["openai:scripted"]["output"]
        == 10
    )
