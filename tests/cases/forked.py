"""The command in processes of its own, forked from one that has everything loaded, and killed at a write
of one's choice.

As a script it is that process: it reads a request a line, and answers with a line.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

PROJECT = Path(__file__).parents[2]


class Done(NamedTuple):
    """How a command ended: its exit status (-9 where it was killed), what it printed, and how often it had written."""

    status: int
    out: str
    err: str
    writes: int


class Forked:
    """The process that forks. It runs one command at a time, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=self._folder, env={**os.environ, "PYTHONPATH": str(PROJECT)},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self, *arguments: str, kill_at: int = 0, folder: Path | None = None, room: int = -1
    ) -> Done:
        """Run the command.

        Args:
            arguments: its arguments.
            kill_at: at which of its writes it kills itself, before it is made; 0: at none.
            folder: its TRIBUNAL_DATA, where it isn't the test's.
            room: the most bytes that a file may have, as if the disk were full then; -1: any number.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        data = str(folder or os.environ["TRIBUNAL_DATA"])
        environment = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("OPENAI", "TRIBUNAL", "LANGSMITH"))
        }
        environment |= {"TRIBUNAL_DATA": data}
        asked = {
            "arguments": arguments,
            "kill_at": kill_at,
            "environment": environment,
            "room": room,
        }
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        return Done(*json.loads(stdout.readline()))


def serve() -> None:
    """Fork for each line of standard input."""
    import tribunal.commands.review
    import tribunal.commands.show
    import tribunal.docket.docket
    import tribunal.graphs.tribunal  # noqa: F401

    out, err, count = (Path(f"{os.getpid()}.{name}") for name in ("out", "err", "count"))
    for line in sys.stdin:
        asked = json.loads(line)
        for file in (out, err, count):
            file.write_text("")
        child = os.fork()
        if not child:
            os.environ.update(asked["environment"])
            sys.dont_write_bytecode = True  # a module compiled here would be cut off, and kept
            resource.setrlimit(resource.RLIMIT_FSIZE, (asked["room"], resource.RLIM_INFINITY))
            _command(asked["arguments"], asked["kill_at"], out, err, count)
        _, how = os.waitpid(child, 0)
        ended = [
            os.waitstatus_to_exitcode(how),
            out.read_text(),
            err.read_text(),
            len(count.read_bytes()),
        ]
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


def _command(arguments: list[str], kill_at: int, out: Path, err: Path, count: Path) -> None:
    from tribunal.commands import app

    connect, counted, written = sqlite3.connect, os.open(count, os.O_WRONLY), 0

    def watch(statement: str) -> None:
        nonlocal written
        if (
            statement == "COMMIT"
        ):  # what a transaction wrote is in the file after this, and none of it before
            written += 1
            if written == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            os.write(counted, b".")

    def watched(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(watch)
        return connection

    sqlite3.connect = watched  # type: ignore[assignment]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(out, os.O_WRONLY), 1)
    os.dup2(os.open(err, os.O_WRONLY), 2)
    status = 1
    try:
        app(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 (a child ends here, whatever happens; its parent reads the traceback)
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
