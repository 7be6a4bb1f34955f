"""`tribunal graphs` and `prompts`: what there is to run, and what every role is told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from tribunal.commands.options import flag_of_setting
from tribunal.commands.shared_options import graph_names
from tribunal.process.terminal import print_table, say
from tribunal.settings.names import Scheme


def graphs(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]...", help="The graphs. Default: all.", autocompletion=graph_names),
    ] = None,
) -> None:
    """Draw graphs as Mermaid text, subgraphs included; of a graph that you name, also list the settings."""
    from tribunal.graphs import draw_graph, named_graphs
    from tribunal.settings.base import GRAPH_SETTINGS
    from tribunal.settings.graph_settings import SETTINGS

    known = named_graphs()
    for name in names or known:
        say(f"%% {name}: {known.get(name, '')}\n{draw_graph(name)}", lines=True)
        if names and name in GRAPH_SETTINGS:
            heeded = [
                setting
                for setting in SETTINGS.values()
                if setting.name in GRAPH_SETTINGS[name].model_fields
            ]
            rows = [(flag_of_setting(each.name), each.default, each.does) for each in heeded]
            print_table(("setting", "default", "what it does"), rows)


app = Typer(
    no_args_is_help=True,
    help="The prompts of every role. Your own folder replaces them: --prompts FOLDER.",
)

Folder = Annotated[Path, Argument(metavar="FOLDER", help="A folder of prompts.")]


def _list_prompts() -> None:
    """List the prompts: name, seat and purpose."""
    from tribunal.prompts.catalogue import CATALOGUE, list_system_prompts

    rows = [(name, part.seat, part.says) for name, part in CATALOGUE.items()]
    for name in list_system_prompts():
        rows.append(
            (name, "", f"the installed system {name.removeprefix('system/').partition('/')[0]}")
        )
    print_table(("name", "seat", "for"), rows)


@app.command("show")
def show_prompt(
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="Such as arcade/judge. Without it: a list.")
    ] = None,
) -> None:
    """List the prompts, or print the file of one."""
    from tribunal.prompts.catalogue import find_prompt

    if name is None:
        _list_prompts()
        return
    say(find_prompt(name), lines=True)


@app.command("export")
def export_prompts(folder: Folder) -> None:
    """Write every prompt into a new folder, with a README that says what each is filled with. Overwrites nothing."""
    from tribunal.prompts.catalogue import export_prompts

    made = export_prompts(folder)
    say(
        f"{len(made.sources)} prompts lie in {folder} (hash {made.sha}); run with --prompts {folder}"
    )


@app.command("import")
def import_prompts(
    source: Annotated[str, Argument(metavar="SOURCE", help="h-vli or predict.")],
    clone: Annotated[
        Path, Argument(metavar="FOLDER", help="Your clone of the published repository.")
    ],
    to: Annotated[
        Path | None,
        Argument(
            metavar="[TO]", help="The new folder. Default: SOURCE-prompts.", show_default=False
        ),
    ] = None,
    scheme: Annotated[
        Scheme, Option(help="Of h-vli: its prompts for the categories, or for two labels.")
    ] = "fine",
) -> None:
    """Make a prompt set from the prompts of a published repository, read from your clone. No code of it is run."""
    from tribunal.prompts.published_sets import import_prompts as make_set

    target = to or Path(f"{source}-prompts")
    made = make_set(source, clone, target, scheme)
    say(
        f"{len(made.own) - 1} prompts lie in {target} (hash {made.sha}); its README says what differs from the original"
    )
    say(f"run with --prompts {target}")


@app.command("check")
def check_prompts(
    folder: Folder,
    graph: Annotated[
        str,
        Option(
            help="An installed system, whose prompts the folder may hold too.",
            autocompletion=graph_names,
        ),
    ] = "",
) -> None:
    """Check a folder of prompts as a run does, and say which of ours it changes."""
    from tribunal.commands.role_list import iter_roles
    from tribunal.graphs import graph as load_graph
    from tribunal.prompts.policy import load_policy
    from tribunal.prompts.sets import prompts_with_system, read_prompt_set
    from tribunal.settings.systems import system_of

    system = system_of(graph) if graph and load_graph(graph) else None
    name = system.name if system else None
    made = read_prompt_set(str(folder), name)
    ours = prompts_with_system(name).sources
    changed = sorted(name for name, text in ours.items() if made.sources[name] != text)
    added = sorted(made.sources.keys() - ours.keys())
    renamed = made.file.answers
    if renamed:
        policy = load_policy("h-vli")  # whose names stand for those of any policy
        for role in iter_roles():
            if role.prompt in renamed:
                renamed[role.prompt].check_fields(role.form(policy, "fine"), role.prompt)
    say(f"{folder}: every prompt can be used (hash {made.sha})")
    say(f"other than ours: {', '.join(changed) or 'none'}")
    if added:
        say(f"parts of its own: {', '.join(added)}")
    if made.file.tuned:
        say(f"tuned for: {made.file.tuned.family}")
    if renamed:
        say(f"answers in names of its own: {', '.join(sorted(renamed))}")
