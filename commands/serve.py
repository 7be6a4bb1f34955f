"""`tribunal serve`, `try`, `migrate` and `keys`: the HTTP service, its page to try it, its tables, and its API keys."""

from __future__ import annotations

import inspect
import time
from typing import Annotated, Any

import typer
from typer.core import TyperOption

from tribunal.commands.command_group import Sectioned
from tribunal.commands.database import require_service, run_in_store
from tribunal.commands.errors import report_errors
from tribunal.commands.options import parse_settings
from tribunal.commands.shared_options import Database
from tribunal.errors import BadInput
from tribunal.terminal import say
from tribunal.times import format_date, moment_of, seconds_of

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
        from tribunal.service.replica.options import ServiceOptions, flag_of_option

    made = []
    for name, field in ServiceOptions.model_fields.items():
        flag, default = flag_of_option(name), field.get_default(call_default_factory=True)
        does = field.description or ""
        does = f"{does if '://' in does.split()[0] else does[0].upper() + does[1:]}."
        if name == "settings":
            does = "A setting of every case, by its name in docs/settings.md; may be given again."
            made.append(TyperOption(param_decls=["--set", name], metavar="NAME=VALUE", multiple=True, help=does))
        elif isinstance(default, bool):
            made.append(TyperOption(param_decls=[f"{flag}/--no-{flag[2:]}", name], is_flag=True, help=does))
        else:
            usual = "" if default is None else f" Default: {default_as_text(default)}."
            made.append(TyperOption(param_decls=[flag, name], metavar=_METAVARS.get(name, "VALUE"), help=does + usual))
    return made


def default_as_text(default: object) -> str:
    """Return a default as a user writes it."""
    if isinstance(default, tuple):
        return ",".join(map(default_as_text, default))
    return f"{default:.15g}" if isinstance(default, float) else str(default)


def serve(**given: Any) -> None:
    """Run the HTTP service. /docs on its address shows every route."""
    import os

    from tribunal.service.replica.options import options_from
    from tribunal.service.serving import run

    named = {name: value for name, value in given.items() if value not in (None, (), [])}
    if "settings" in named:
        named["settings"] = parse_settings(list(named["settings"]))
    run(options_from(os.environ, named))


serve.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # its options come from `Serving`


def open_try_page(
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="As provider:model. Default: TRIBUNAL_MODEL, else the rehearsal model."),
    ] = None,
    graph: Annotated[str | None, typer.Option(help="The graph that judges where the page names none.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of every case; may be given again."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser, or only print its address.")
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

    run(options_from(os.environ, {name: value for name, value in named.items() if value not in (None, {})}), show_page)


def migrate(database: Database = None) -> None:
    """Create or update the tables of the database. Run it once before a new version starts."""
    from tribunal.store.engine import upgrade

    say(f"database tables: version {upgrade(database)}")


keys_app = typer.Typer(help="Make, list, rotate and revoke the API keys of tribunal serve.", no_args_is_help=True)


Expires = Annotated[
    str | None, typer.Option(metavar="90d|DATE", help="When the key ends: after this time, or as a date begins (UTC).")
]


@keys_app.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="The owner of the key.")],
    scope: Annotated[list[str], typer.Option(help="judge, review, lead, audit or admin; may be given several times.")],
    per_minute: Annotated[int | None, typer.Option(min=1, help="Requests a minute.")] = None,
    daily_calls: Annotated[int | None, typer.Option(min=1, help="Model calls a day.")] = None,
    daily_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens a day, in and out.")] = None,
    daily_money: Annotated[float | None, typer.Option(min=0, help="Money a day, by the price table of serve.")] = None,
    expires: Expires = None,
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="Of its posts in the queue: the higher goes first.")
    ] = 0,
    database: Database = None,
) -> None:
    """Make a key and print it. It is shown this once; only a hash of it is kept."""
    from tribunal.service.replica import keys

    limits = keys.KeyLimits(
        per_minute=per_minute, daily_calls=daily_calls, daily_tokens=daily_tokens, daily_money=daily_money
    )
    end = _end_of_key(expires)
    say(run_in_store(database, lambda store: keys.add_key(store, name, scope, limits, end, priority)))


def _end_of_key(expires: str | None) -> float | None:
    """Return when a key ends, in seconds of the epoch; raise BadInput if that is no time to come."""
    try:
        return None if expires is None else moment_of(expires, time.time())
    except ValueError as error:
        raise BadInput(f"--expires: {error}") from None


@keys_app.command("list")
def list_keys(database: Database = None) -> None:
    """List the keys: id, name, scopes, limits, priority, date, end, and whether revoked or expired."""
    from tribunal.service.replica import keys

    now = time.time()
    for row in run_in_store(database, keys.list_keys):
        limits = ", ".join(f"{name} {row[name]:g}" for name in keys.KeyLimits.model_fields if row[name] is not None)
        limits = f"{limits or 'no limits'}  priority {row['priority']}" if row["priority"] else limits
        since, ends = format_date(row["created"]), row["expires"]
        has_expired = ends is not None and ends <= now
        states = ["revoked" if row["revoked"] else "expired" if has_expired else "active"]
        if ends is not None:
            states.append(f"{'ended' if has_expired else 'ends'} {format_date(ends)}")
        if row["old_expires"] is not None and row["old_expires"] > now:
            states.append(f"its old secret works until {format_date(row['old_expires'])}")
        parts = [row["id"], row["name"], ", ".join(row["scopes"]), limits or "no limits", f"since {since}", *states]
        say("  ".join(parts))


@keys_app.command("rotate")
def rotate_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as tribunal keys list shows it.")],
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old key still works; 0 ends it and its desk sessions now.")
    ] = "7d",
    expires: Expires = None,
    database: Database = None,
) -> None:
    """Print a new key in place of an old one, with its id, name, scopes, limits, usage, cases, batches and sessions.

    A key that ends lives as long again, unless --expires says otherwise.
    """
    from tribunal.service.replica import keys

    try:
        seconds = seconds_of(overlap)
    except ValueError as error:
        raise BadInput(f"--overlap: {error}") from None
    end = _end_of_key(expires)
    made, old_ends = run_in_store(database, lambda store: keys.rotate_key(store, key_id, seconds, end))
    say(made)
    works = f"works until {format_date(old_ends)}" if old_ends > time.time() else "opens nothing any more"
    say(f"{key_id}: the old key {works}", aside=True)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as tribunal keys list shows it.")],
    database: Database = None,
) -> None:
    """Revoke a key: from now on it is refused."""
    from tribunal.service.replica import keys

    run_in_store(database, lambda store: keys.revoke_key(store, key_id))
    say(f"{key_id}: revoked")
