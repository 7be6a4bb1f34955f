"""What the docs repeat of the code is what the code does; what they show runs. `TRIBUNAL_UPDATE_DOCS=1` rewrites."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tribunal.commands import GROUPS, app
from tribunal.commands.options import SETTINGS_SECTION
from tribunal.events import EVENTS
from tribunal.graphs import GRAPHS, draw_graph, graph

README, DOCS = PROJECT / "README.md", PROJECT / "docs"
POST = "Immigrants: the weeds in our garden."
UPDATE = bool(os.environ.get("TRIBUNAL_UPDATE_DOCS"))


def holds(page: Path, name: str, content: str) -> None:
    """Assert that a marked part of a page is this, or make it so."""
    marked = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    text = page.read_text("utf-8")
    assert marked.search(text)
    fresh = marked.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)
    if UPDATE:
        page.write_text(fresh, "utf-8")
    assert page.read_text("utf-8") == fresh


def is_page(page: Path, content: str) -> None:
    """Assert that a page is this, or make it so."""
    if UPDATE:
        page.write_text(content, "utf-8")
    assert page.read_text("utf-8") == content


DIAGRAMS = {
    "tribunal": ("docs/concepts/court.md", "docs/index.md", "README.md"),
    "arcade": ("docs/concepts/arcade.md",),
    "multiround": ("docs/concepts/arcade.md",),
    "predict": ("docs/concepts/predict.md",),
    "antihate": ("docs/concepts/antihate.md",),
    "mv_debate": ("docs/concepts/mv_debate.md",),
    "baseline": ("docs/concepts/peers.md",),
    "self_consistency": ("docs/concepts/peers.md",),
    "symmetric_debate": ("docs/concepts/peers.md",),
}


def diagram(name: str) -> str:
    """Return the Mermaid text of a graph, without its styles.

    The tracks of ARCADE's courts are opened once, in the diagram of `arcade`.
    """
    closed = name in ("tribunal", "multiround")
    text = graph(name).get_graph().draw_mermaid() if closed else draw_graph(name)
    lines = (
        text.partition("graph TD;")[2].replace(":::first", "").replace(":::last", "").splitlines()
    )
    return "\n".join(["graph TD;", *(line for line in lines if line and "classDef" not in line)])


def test_each_graph_has_its_diagram_on_a_page() -> None:
    assert DIAGRAMS.keys() == GRAPHS.keys()


@pytest.mark.parametrize(
    ("name", "page"), [(name, page) for name, pages in DIAGRAMS.items() for page in pages]
)
def test_each_diagram_is_the_graph_that_the_code_draws(name: str, page: str) -> None:
    holds(PROJECT / page, f"graph {name}", f"```mermaid\n{diagram(name)}\n```")


WORDS = """\
## Words as they arrive

`stream_mode="messages"`, on a server `messages-tuple`, gives each answer in chunks while the model writes it:

```python
import asyncio

from tribunal.graphs import graph


async def watch() -> None:
    post = {"text": "Immigrants: the weeds in our garden."}
    answers = graph("arcade").astream(post, stream_mode="messages", subgraphs=True)
    async for _, (chunk, beside) in answers:
        print(beside["seat"], beside["role"], chunk.id, chunk.text)


asyncio.run(watch())
```

- Each chunk has `seat`, `role` and `langgraph_node`. Several agents speak at once; the chunks of one answer share an
  `id`.
- An answer is a form, so its words are JSON. Thoughts are in `additional_kwargs.reasoning_content`, if the provider
  sends them.
- After an answer that broke off or was invalid, the same seat answers again under another `id`. The state has the
  valid answer.
- Keys are removed. Answers from a cache aren't streamed. A model streams only if somebody listens; a server that
  can't stream sends each answer as one message.
"""


@pytest.mark.long
def test_what_the_page_of_events_shows_runs(tmp_path: Path) -> None:
    [block] = blocks(DOCS / "events.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seats = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert {"gatekeeper", "prosecutor", "defender", "judge"} <= set(seats)
    assert len(seats) > 50


def test_each_event_is_listed_with_its_fields() -> None:
    """docs/events.md: the kinds of events, when each comes, and its fields."""
    head = (
        "# Events\n\n"
        'A graph streams these events with `stream_mode="custom"` (on a server with `stream_subgraphs=True`).\n'
        "Each is a JSON object, and `event` is its kind. `tribunal.events.event_of(data)` parses one.\n"
        "Your own pieces can stream other kinds. Written by tests/test_docs.py.\n\n"
        f"{WORDS}\n"
        "## The events\n\n"
        "| event | when it comes | fields |\n|---|---|---|\n"
    )
    rows = []
    for each in EVENTS:
        [kind] = get_args(each.model_fields["event"].annotation)
        said = " ".join((each.__doc__ or "").split())
        names = ", ".join(f"`{name}`" for name in each.model_fields if name != "event")
        rows.append(f"| `{kind}` | {said} | {names} |")
    is_page(DOCS / "events.md", head + "\n".join(rows) + "\n")


def test_the_transcript_is_a_real_one() -> None:
    shown = CliRunner().invoke(app, ["judge", POST, "--rounds", "1"], env={"COLUMNS": "100"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert f'tribunal judge "{POST}"' in README.read_text("utf-8")
    holds(
        README,
        "transcript",
        "```text\n" + re.sub(r", \d+\.\d\d s in calls", "", "\n".join(lines)) + "\n```",
    )


def test_every_graph_is_named() -> None:
    text = README.read_text("utf-8")
    assert all(f"| `{name}` |" in text for name in GRAPHS)


def test_the_readme_can_be_read_in_one_go() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 200


def helps() -> dict[str, str]:
    """The help of every command and sub-command, by its name, as a terminal of 100 columns shows it."""
    runner, found = CliRunner(), {}
    left: list[list[str]] = [[]]
    while left:
        words = left.pop(0)
        said = runner.invoke(
            app, [*words, "--help"], prog_name="tribunal", terminal_width=100
        ).stdout
        found[" ".join(["tribunal", *words])] = "\n".join(
            line.rstrip() for line in said.strip().splitlines()
        )
        titles = "|".join(COMMAND_SECTIONS)
        lists = re.findall(rf"^(?:{titles}):\n((?: +\S.*\n?)+)", said, re.MULTILINE)
        lines = [line for each in lists for line in each.splitlines() if re.match(r"  \S", line)]
        left[:0] = [[*words, line.split()[0]] for line in lines]
    return found


SETTING_SECTIONS = (SETTINGS_SECTION,)
COMMAND_SECTIONS = ("Commands", *GROUPS)
HELP_ROW = "Show this message and exit."
# Options that several commands have together, under a name that stands in their place.
FAMILIES = {
    "Run options": ("--engine", "--run-max-calls", "--run-max-cost", "--run-max-tokens", "--workers"),
    "Experiment options": (
        "--aux-model", "--call-seconds", "--data", "--measured-in", "--model", "--out", "--rate", "--set",
    ),
}  # fmt: skip
COMMANDS_HEAD = """\
# Commands

What each command's `--help` says; written by tests/test_docs.py. Each name follows `tribunal`, as in `tribunal judge`.
Arguments are given in this order; one without `[required]` may be left out. Every command takes `--help`. [Options that
several commands have](#shared-options) stand once, at the end. [Settings](../settings.md) have a page of their own.

"""


class OptionRow(NamedTuple):
    """An option as a help text lists it: the flags and what they take, its help, and the help's default, if any."""

    flags: str
    help: str
    default: str

    @property
    def name(self) -> str:
        """The option's first flag."""
        return self.flags.split()[0].rstrip(",")

    @property
    def key(self) -> tuple[str, str]:
        """What is equal where two commands have the same option; their defaults may differ."""
        return self.flags, self.help


def option_rows(section: str) -> dict[OptionRow, list[str]]:
    """Return the options of a section of a help text, each with its lines."""
    rows: list[list[str]] = []
    for line in section.splitlines()[1:]:
        if re.match(r"  \S", line):
            rows.append([line])
        elif rows:
            rows[-1].append(line)
    return {parse_option(lines): lines for lines in rows}


def parse_option(lines: list[str]) -> OptionRow:
    """Return an option from its lines, in which a word may be broken after a hyphen."""
    flags = re.split(r"\s{2,}", lines[0].strip())[0]
    words = " ".join(" ".join(lines).split()).removeprefix(flags).strip()
    words = re.sub(r"(?<=\w)- (?=\w)", "-", words)
    said, *default = re.split(r" ?(?=Default: |\[default: )", words, maxsplit=1)
    return OptionRow(flags, said, "".join(default))


def section_title(part: str) -> str | None:
    """Return the title of a section of options, or None for any other paragraph of a help text."""
    found = re.match(r"(\S[^\n:]*):\n  \S", part)
    return found[1] if found and not part.startswith("Usage") else None


def own_part(part: str, shared: set[tuple[str, str]]) -> str:
    """Return a section with the options that are this command's alone; empty if there is none."""
    if section_title(part) in COMMAND_SECTIONS:
        return ""  # each has a section of the page
    lines = [
        line for row, lines in option_rows(part).items() if row.key not in shared for line in lines
    ]
    return "\n".join([part.splitlines()[0], *lines]) if lines else ""


def shared_options(options: dict[str, list[OptionRow]]) -> dict[str, OptionRow]:
    """Return by its name each option that several commands have, with the help and the default that most give it."""
    rows = [
        row
        for listed in options.values()
        for row in listed
        if row.name.startswith("-") and row.help != HELP_ROW
    ]
    keys, whole = Counter(row.key for row in rows), Counter(rows)
    found: dict[str, OptionRow] = {}
    for row in sorted(rows, key=lambda row: (-keys[row.key], -whole[row])):
        if keys[row.key] > 1:
            found.setdefault(row.name, row)
    return found


def other_defaults(shared: OptionRow, options: dict[str, list[OptionRow]]) -> list[str]:
    """Return the defaults that some commands give a shared option, where it has another elsewhere."""
    commands: dict[str, list[str]] = {}
    for command, listed in options.items():
        for row in listed:
            if row.key == shared.key and row.default != shared.default:
                commands.setdefault(row.default.removeprefix("Default: "), []).append(
                    f"`{command}`"
                )
    return [f"Default of {', '.join(names)}: {default}" for default, names in commands.items()]


def option_table(rows: Iterable[OptionRow], options: dict[str, list[OptionRow]]) -> str:
    """Return a table of shared options."""
    lines = []
    for row in sorted(rows):
        text = " ".join(filter(None, [row.help, row.default, *other_defaults(row, options)]))
        lines.append(
            "| `{}` | {} |".format(*(cell.replace("|", r"\|") for cell in (row.flags, text)))
        )
    return "| option | what it does |\n|---|---|\n" + "\n".join(lines) + "\n"


def shared_names(names: set[str]) -> list[str]:
    """Return what stands for a command's shared options: the families that it has in full, and single options."""
    families = [title for title, members in FAMILIES.items() if names.issuperset(members)]
    single = names.difference(*(FAMILIES[title] for title in families))
    links = [f"[{title.lower()}](#{title.lower().replace(' ', '-')})" for title in families]
    return [*(f"`{name}`" for name in sorted(single)), *links]


def test_the_commands_are_those_that_there_are() -> None:
    """docs/reference/commands.md: an option, a setting or a note that several commands have stands there once."""
    texts = {
        name.removeprefix("tribunal "): re.sub(r"<(int|float) range>", r"<\1>      ", said).split(
            "\n\n"
        )
        for name, said in helps().items()
    }
    settings = {
        name: rows
        for name, parts in texts.items()
        if (
            rows := {
                row for p in parts if section_title(p) in SETTING_SECTIONS for row in option_rows(p)
            }
        )
    }
    # Every command says the same of them. A run of `eval` takes in no decisions of people, and the web by --set alone.
    for name, rows in settings.items():
        assert {row.name for row in settings["judge"] ^ rows} == (
            {"--review", "--web"} if name == "eval" else set()
        )
    own = {
        name: [p for p in parts if section_title(p) not in SETTING_SECTIONS]
        for name, parts in texts.items()
    }
    options = {
        name: [
            row
            for p in parts
            if section_title(p) not in (None, *COMMAND_SECTIONS)
            for row in option_rows(p)
        ]
        for name, parts in own.items()
    }
    shared = shared_options(options)
    counted = Counter(p for parts in own.values() for p in parts if section_title(p) is None)
    notes = sorted(note for note, times in counted.items() if times > 1)
    keys = {row.key for row in shared.values()}
    sections = []
    for name, parts in own.items():
        # Those of the service stand in docs/operating.md, which tests/service/test_serve_options.py holds.
        hidden = keys | {
            row.key for row in options[name] if name == "serve" or row.help == HELP_ROW
        }
        paragraphs = [
            own_part(p, hidden) if section_title(p) else p
            for p in parts
            if p not in notes
            and not p.startswith("Usage:")  # the heading and the arguments say that
        ]
        also = shared_names({row.name for row in options[name] if row.key in keys})
        also = ["[options of the service](../operating.md#settings)"] if name == "serve" else also
        also += ["[settings](../settings.md)"] if len(texts[name]) > len(parts) else []
        text = "\n\n".join(filter(None, paragraphs))
        sections.append(f"## `{name}`\n\n```text\n{text}\n```\n")
        if also:
            sections[-1] += f"\nShared: {', '.join(also)}.\n"
    assert len(sections) > 15
    single = [
        row
        for row in shared.values()
        if row.name not in {name for group in FAMILIES.values() for name in group}
    ]
    tables = [f"## Shared options\n\n{option_table(single, options)}"]
    for title, names in FAMILIES.items():
        tables.append(f"### {title}\n\n{option_table([shared[name] for name in names], options)}")
    end = "\nCommands that decide many posts:\n\n```text\n" + "\n\n".join(notes) + "\n```\n"
    is_page(
        DOCS / "reference" / "commands.md", COMMANDS_HEAD + "\n".join([*sections, *tables]) + end
    )


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


@pytest.mark.long
@pytest.mark.parametrize("page", ["datasets", "explaining", "fetching", "perspectives"])
def test_what_other_pages_show_runs(page: str, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(DOCS / f"{page}.md", "python")):
        file = tmp_path / f"block_{number}.py"
        file.write_text(block, "utf-8")
        done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("page", sorted((DOCS / "hours").glob("*.md")), ids=lambda page: page.stem)
def test_what_a_first_hour_shows_runs(page: Path, tmp_path: Path) -> None:
    """One block after another, in one folder, offline. A text right after a Python block is what it prints."""
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    commands = [["sh", "-ec", block] for block in blocks(page, "sh")]
    commands += [[sys.executable, "-c", block] for block in blocks(page, "python")]
    for command in commands:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        assert command[-1].count("\n") <= 30
        _, _, after = page.read_text("utf-8").partition(f"{command[-1]}```\n\n```text\n")
        assert after.partition("```")[0] in ("", done.stdout), command[-1]
