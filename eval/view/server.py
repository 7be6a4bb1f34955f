"""`tribunal view` as a process: an address of this machine, what is said aloud, and a quiet end."""

from __future__ import annotations

import ipaddress
import socket
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tribunal.errors import BadInput
from tribunal.plugins import require_extra

if TYPE_CHECKING:
    from tribunal.eval.runs.prices import Prices

HOST = "127.0.0.1"
_LAST_ANSWERS = 1  # seconds for what is being answered when it is told to end


def serve_runs(
    folders: Sequence[Path],
    say: Callable[[str], None],
    *,
    data: Sequence[str] = (),
    prices: Prices | None = None,
    host: str = HOST,
    port: int = 0,
    open_to_others: bool = False,
    browser: bool = False,
) -> None:
    """Serve the pages of runs until the process is told to end.

    Args:
        folders: of runs, or of folders of runs.
        say: is told the address, once it is served.
        data: where the posts of the runs' data sets are.
        prices: what calls cost.
        host: the address to listen on.
        port: 0: a free one.
        open_to_others: whether the address may be one that other machines reach.
        browser: open it in a browser.

    Raises:
        BadInput: what serves pages isn't installed, a folder is no run's, or the address can't be had or isn't this
            machine's alone.
    """
    require_extra("view", "view")
    import uvicorn

    from tribunal.eval.view.app import create_app
    from tribunal.eval.view.viewed_runs import ViewedRuns

    _check_host(host, open_to_others)
    runs = ViewedRuns(folders, data, prices)
    with closing(bind_socket(host, port)) as listening, closing(runs):
        runs.begin_reading()
        named = f"[{host}]" if ":" in host else host
        address = f"http://{named}:{listening.getsockname()[1]}/"

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                say(address)
                if browser:
                    webbrowser.open(address)

            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                self.should_exit, self.force_exit = True, self.should_exit

        config = uvicorn.Config(
            create_app(runs, {host, socket.gethostname()}),
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_LAST_ANSWERS,
        )
        Server(config).run([listening])


def _check_host(host: str, open_to_others: bool) -> None:
    if open_to_others or host == "localhost":
        return
    try:
        alone = ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = False
    if not alone:
        raise BadInput(
            f"host: {host}: other machines may reach it, and there is no sign-in; leave --host out, or add "
            "--open-to-others"
        )


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket on the host and the port; raise BadInput if they can't be had."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        said = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"port: {host}:{port}: {said}; give another --host or --port") from error
    return made
