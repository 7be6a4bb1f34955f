"""The options of whatever carries out runs: by how many processes, by which engine, and what it may spend."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from tribunal.commands.errors import ending_well

SECTION = "Engine and limits"


def _own(*names: str, **told: Any) -> Any:
    return typer.Option(*names, show_default=False, rich_help_panel=SECTION, **told)


_OPTIONS: dict[str, Any] = {
    "engine": Annotated[
        Literal["embedded", "ray"] | None,
        _own(help="What decides the posts: this machine's own processes (embedded, the default), or a Ray cluster."),
    ],
    "workers": Annotated[
        int | None,
        _own(
            "--workers", min=1, max=256,
            help="How many processes decide posts, sharing --concurrency. Default: 1; of Ray, what its cluster holds.",
        ),
    ],
    "address": Annotated[
        str | None, _own(metavar="HOST:PORT|auto", help="With --engine ray: the cluster. Default: one of its own.")
    ],
    "run_max_calls": Annotated[
        int | None, _own(min=1, help="How many calls the whole run may make, in all its starts and processes.")
    ],
    "run_max_tokens": Annotated[
        int | None, _own(min=1, help="How many tokens the whole run may take, in and out.")
    ],
    "run_max_cost": Annotated[float | None, _own(min=0, help="What the whole run may cost, by --prices.")],
}  # fmt: skip


def with_engine(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options beside its own; it is given the `engine` and `limits` they make as `carried`."""
    own = inspect.signature(command, eval_str=True).parameters

    def with_options(**given: Any) -> None:
        with ending_well():
            asked = {name: given.pop(name) for name in _OPTIONS}
            carried = _meant(**asked)
        command(**given, carried=carried)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword) for name, each in own.items() if name != "carried"]
    parameters += [
        inspect.Parameter(name, keyword, default=None, annotation=annotation) for name, annotation in _OPTIONS.items()
    ]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


def _meant(
    *,
    engine: Literal["embedded", "ray"] | None,
    workers: int | None,
    address: str | None,
    run_max_calls: int | None,
    run_max_tokens: int | None,
    run_max_cost: float | None,
) -> dict[str, Any]:
    """The engine and the limits, by name.

    Raises:
        BadInput: an address is given, and no engine that has one.
    """
    from tribunal.errors import BadInput
    from tribunal.eval.runs.engines import Engine
    from tribunal.eval.runs.spending import Limits

    if address is not None and engine != "ray":
        raise BadInput(f"address: {address}: is that of a Ray cluster; give --engine ray with it")
    limits = Limits(run_max_calls, run_max_tokens, run_max_cost)
    return {"engine": Engine(engine or "embedded", workers, address), "limits": limits}
