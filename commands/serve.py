"""`tribunal serve` and `try`: the HTTP service, and its page to try a post."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

from typer import Option
from typer.core import TyperOption

from tribunal.commands.command_group import Sectioned
from tribunal.commands.database import require_service
from tribunal.commands.options import parse_pairs, parse_settings
from tribunal.commands.printing import report_errors
from tribunal.commands.shared_options import Database
from tribunal.errors import BadInput
from tribunal.process.terminal import say

EPILOG = (
    "Each option is also a variable of the environment: --in-flight is TRIBUNAL_SERVE_IN_FLIGHT, and --database is "
    "TRIBUNAL_DATABASE. --set is TRIBUNAL_SERVE_SETTINGS, a JSON object."
)


_METAVARS = {"database": "URL", "public_url": "URL", "prices": "FILE", "mapping": "FILE"}


class ServeCommand(Sectioned):
    """Has one option for each of the service's, which are looked up when somebody asks for them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the service, and --help."""
        return [*_serve_options(), *super().get_params(ctx)]


def _serve_options() -> list[TyperOption]:
    with report_errors():  # a shell that completes a word asks for the options, too
        require_service()
        from tribunal.service.replica.options import LIMITS, ServiceOptions, flag_of_option

    made = []
    for name, field in ServiceOptions.model_fields.items():
        if name in LIMITS:
            continue
        flag = flag_of_option(name)
        default = field.get_default(call_default_factory=True)
        does = field.description or ""
        does = f"{does if '://' in does.split()[0] else does[0].upper() + does[1:]}."
        if name == "settings":
            does = "A setting of every case, by its name in docs/settings.md; may be given again."
            made.append(
                TyperOption(
                    param_decls=["--set", name], metavar="NAME=VALUE", multiple=True, help=does
                )
            )
        elif isinstance(default, bool):
            made.append(
                TyperOption(param_decls=[f"{flag}/--no-{flag[2:]}", name], is_flag=True, help=does)
            )
        else:
            usual = "" if default is None else f" Default: {default_as_text(default)}."
            made.append(
                TyperOption(
                    param_decls=[flag, name],
                    metavar=_METAVARS.get(name, "VALUE"),
                    help=does + usual,
                )
            )
    does = f"A technical limit (docs/operating.md); can be repeated: {', '.join(LIMITS)}."
    made.append(
        TyperOption(
            param_decls=["--limit", "limit"], metavar="NAME=VALUE", multiple=True, help=does
        )
    )
    return made


def default_as_text(default: object) -> str:
    """Return a default as a user writes it."""
    if isinstance(default, tuple):
        return ",".join(map(default_as_text, default))
    return f"{default:.15g}" if isinstance(default, float) else str(default)


def serve(**given: Any) -> None:
    """Run the HTTP service. /docs on its address shows every route."""
    import os

    from tribunal.service.replica.options import LIMITS, options_from
    from tribunal.service.serving import run

    limits = parse_pairs(list(given.pop("limit", None) or ()), "--limit", "NAME=VALUE")
    unknown = limits.keys() - set(LIMITS)
    if unknown:
        raise BadInput(f"--limit: unknown limit {min(unknown)!r}; use one of: {', '.join(LIMITS)}")
    named = {name: value for name, value in given.items() if value not in (None, (), [])} | limits
    if "settings" in named:
        named["settings"] = parse_settings(list(named["settings"]))
    run(options_from(os.environ, named))


serve.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # its options come from `Serving`


def open_try_page(
    model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="As provider:model. Default: TRIBUNAL_MODEL, else the rehearsal model.",
        ),
    ] = None,
    graph: Annotated[
        str | None, Option(help="The graph that judges where the page names none.")
    ] = None,
    given: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="A setting of every case; may be given again."),
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool,
        Option("--open/--no-open", help="Open the page in the browser, or only print its address."),
    ] = True,
    database: Database = None,
) -> None:
    """Try a post in the browser: start the service for this machine alone, and open its page /try."""
    import os
    import webbrowser

    from tribunal.service.replica.options import options_from
    from tribunal.service.serving import run

    settings = parse_settings(list(given or []))
    if model and settings.setdefault("model", model) != model:
        raise BadInput(f"model: {model}: is given by --model and by --set; give it once")
    named = {
        "host": "127.0.0.1", "port": port, "try_": True, "workers": 1, "log_level": "warning",
        "graph": graph, "database": database, "settings": settings,
    }  # fmt: skip

    def show_page(address: str) -> None:
        page = f"{address}/try"
        say(page)
        if browser:
            webbrowser.open(page)

    run(
        options_from(
            os.environ, {name: value for name, value in named.items() if value not in (None, {})}
        ),
        show_page,
    )
