"""By what a run is carried out: one process, several of them on this machine, or a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EngineName = Literal["embedded", "ray"]


@dataclass(frozen=True)
class Engine:
    """By what a run is carried out. Its results are the same by any, and one run may go on by another.

    Attributes:
        name: `embedded` is this machine's own processes, `ray` a Ray cluster.
        workers: how many processes decide posts; 1 of `embedded` is this process itself. None: 1, or of Ray as many as
            its cluster has room for.
        address: of the Ray cluster; None: the one in `RAY_ADDRESS`, else one of its own.
    """

    name: EngineName = "embedded"
    workers: int | None = None
    address: str | None = None


EMBEDDED = Engine()
