"""Tables as spreadsheets write them, and tables that are far larger than they look: one reader for every command."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tribunal.errors import BadInput
from tribunal.retrievers.indexes import bounded_text
from tribunal.retrievers.indexes.table_rows import read_rows
from tribunal.settings.environment import say_once

MOST_MEMORY = 400 * 2**20
LINES = ["text;label", "Café, bar; naïve;1", "plain words;0"]
CELLS = [["text", "label"], ["Café, bar; naïve\twords", "1"], ["plain words", "0"]]
DELIMITERS = {",": ",", ";": ";", "\t": "\t", "|": "|", "sep=;": ";", "sep=\t": "\t"}
ENCODINGS = {
    "utf-8": "",
    "utf-8-sig": "",
    "utf-16": "",
    "utf-16-be": "\ufeff",
    "utf-32": "",
    "cp1252": "",
}


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> None:
    say_once.cache_clear()


def spreadsheet(
    form: str, encoding: str, end: str = "\r\n", cells: list[list[str]] = CELLS
) -> bytes:
    """A table as Excel exports it."""
    delimiter = DELIMITERS[form]
    first = [form] if form.startswith("sep") else []
    rows = [
        delimiter.join(f'"{cell}"' if set(cell) & set(',;\t|"') else cell for cell in row)
        for row in cells
    ]
    return (ENCODINGS.get(encoding, "") + end.join([*first, *rows, ""])).encode(encoding)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("form", DELIMITERS)
def test_a_spreadsheet_s_table_opens(
    tmp_path: Path, form: str, encoding: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / f"posts{suffix}"
    file.write_bytes(spreadsheet(form, encoding))
    for _ in range(2):
        rows = list(
            read_rows(
                file, "table", encoding="cp1252" if encoding == "cp1252" else "utf-8", strict=True
            )
        )
        assert [dict(row.cells) for row in rows] == [
            dict(zip(CELLS[0], row, strict=True)) for row in CELLS[1:]
        ]
    usual = "," if suffix == ".csv" else "\t"
    assumed = ("UTF-16" in caplog.text or "UTF-32" in caplog.text, "separated by" in caplog.text)
    assert assumed == (encoding.startswith(("utf-16", "utf-32")), DELIMITERS[form] != usual)
    assert len(caplog.records) == sum(assumed)


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"text\nplain; words\n", ["text"]),
        (b'"a;b;c",text\nx,y\n', ["a;b;c", "text"]),
        (b"a,b;c\n1,2\n", ["a", "b;c"]),
        (b"text,label", None),
        (b"", None),
    ],
)
def test_a_header_without_another_delimiter_keeps_the_usual_one(
    tmp_path: Path, content: bytes, columns: list[str] | None
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    rows = list(read_rows(tmp_path / "t.csv", "table"))
    assert [list(row.cells) for row in rows] == ([columns] if columns else [])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json"])
@pytest.mark.parametrize("row", [1, 3, 5000])
def test_an_undecodable_byte_is_an_error_that_names_the_row(
    tmp_path: Path, suffix: str, row: int
) -> None:
    texts = ["plain words"] * (row - 1) + ["Café"] + ["plain words"] * 10
    if suffix == ".csv":
        content = "text\n" + "\n".join(texts)
    elif suffix == ".jsonl":
        content = "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    else:
        content = json.dumps([{"text": text} for text in texts], ensure_ascii=False)
    (tmp_path / f"t{suffix}").write_bytes(content.encode("cp1252"))
    with pytest.raises(BadInput, match=rf"t\{suffix}: row {row}: .*0xe9.*--encoding cp1252"):
        list(read_rows(tmp_path / f"t{suffix}", "table"))
    assert len(list(read_rows(tmp_path / f"t{suffix}", "table", encoding="cp1252"))) == row + 10


@pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13", "utf-16-le"])
def test_an_encoding_that_is_none_or_wrong(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes(b"text,label\nabc,1\n")
    with pytest.raises(BadInput, match=r"can't be read as|has no column"):
        [row.text("text") for row in read_rows(tmp_path / "t.csv", "table", encoding=encoding)]


# Every command that reads a table


def batch(file: str, *how: str) -> list[str]:
    return ["batch", file, "--out", "out.jsonl", "--graph", "baseline", *how]


def evaluate(file: str, *how: str) -> list[str]:
    columns = [f"--columns=encoding={each}" for each in how[1:]]
    return [
        "eval",
        "--dataset",
        "table",
        "--data",
        file,
        "--out",
        "run",
        "--graph",
        "baseline",
        *columns,
    ]


def annotate(file: str, *how: str) -> list[str]:
    return ["annotate", "export", file, "--out", "tasks", *how]


def precedents(file: str, *how: str) -> list[str]:
    return ["precedents", "build", "ours", "--from", file, *how]


def perspectives(file: str, *how: str) -> list[str]:
    more = f'encoding = "{how[1]}"\n' if how else ""
    label = 'label = { column = "label", hate = ["1"], not_hate = ["0"] }\n'
    Path("spec.toml").write_text(
        'name = "forum"\nlanguage = "en"\ncriterion = "hateful words"\n[source]\n'
        f'files = ["{file}"]\ntext = "text"\nobtain = "here"\n{more}{label}'
    )
    return ["perspectives", "build", "spec.toml", "--data", ".", "--out", "index"]


def compare(file: str, *how: str) -> list[str]:
    Path("setups.toml").write_text('[entries.one]\ngraph = "baseline"\n')
    logged = ["--log", file, "--log-column", "removed=label", "--removed-as", "1"]
    labelled = ["--labels", "1=hate", "--labels", "0=not"]
    return [
        "compare",
        "setups.toml",
        "--on",
        file,
        *logged,
        *labelled,
        "--out",
        "compared",
        "--yes",
        *how,
    ]


COMMANDS: dict[str, Callable[..., list[str]]] = {
    "batch": batch, "eval": evaluate, "annotate": annotate, "precedents": precedents, "perspectives": perspectives,
    "compare": compare,
}  # fmt: skip
ROWS = [
    ["id", "text", "label", "category"],
    ["a", "Café, bar; naïve", "1", "Racist"],
    ["b", "words", "0", "No Hate"],
]


@pytest.mark.parametrize(
    ("form", "encoding"), [(";", "cp1252"), (";", "utf-8"), ("\t", "utf-16"), ("sep=;", "utf-8")]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, command: str, form: str,
    encoding: str,
) -> None:  # fmt: skip
    from tribunal.commands import app

    monkeypatch.chdir(tmp_path)
    Path("posts.csv").write_bytes(spreadsheet(form, encoding, cells=ROWS))
    if encoding == "cp1252":
        refused = CliRunner().invoke(app, COMMANDS[command]("posts.csv"))
        assert refused.exit_code == 2
        assert "posts.csv: row 1: can't be read as utf-8" in refused.stderr
        assert "--encoding cp1252" in refused.stderr or "set source.encoding" in refused.stderr
    how = ("--encoding", "cp1252") if encoding == "cp1252" else ()
    done = CliRunner().invoke(app, COMMANDS[command]("posts.csv", *how))
    assert done.exit_code == 0, (done.output, done.exception)
    assert [each.getMessage() for each in caplog.records].count("posts.csv: cells are separated by ';', by its first "
        "line") == (form != "\t")  # fmt: skip
    if command == "batch":
        assert "Café, bar; naïve" in Path("out.jsonl").read_text("utf-8")


# Rows have a bound, and files don't


def members(opening: str, closing: str, count: int, size: int) -> Iterator[str]:
    """So many objects, each with a text of so many MB."""
    yield opening
    for number in range(count):
        yield ("," if number and opening else "") + '{"text": "'
        yield from ["a" * 2**20] * size
        yield '"}' + ("" if opening else "\n")
    yield closing


def cells(count: int, size: int) -> Iterator[str]:
    yield "text,label\n"
    for _ in range(count):
        yield from ["a" * 2**20] * size
        yield ",1\n"


BOMBS: dict[str, tuple[str, Callable[[], Iterator[str]], str]] = {
    "one value": (".json.gz", lambda: members("[", "]", 1, 1024), "row 1: is over 16 MB"),
    "the second value": (
        ".json.gz",
        lambda: iter(['[{"text": "a"}, {"text": "', *(["a" * 2**20] * 1024)]),
        "row 2",
    ),
    "white space": (".json.gz", lambda: iter(["[", *([" " * 2**20] * 1024), "]"]), "has no row"),
    "many values": (".json.gz", lambda: members("[", "]", 70, 15), ""),
    "nested": (".json.gz", lambda: iter(["[" * 2**20] * 1024), "nested too deeply"),
    "one line": (".jsonl.gz", lambda: members("", "", 1, 1024), "row 1: is over 16 MB"),
    "many lines": (".jsonl.gz", lambda: members("", "", 70, 15), ""),
    "one cell": (".csv.gz", lambda: cells(1, 1024), "row 1: is over 16 MB"),
    "a header": (".csv.gz", lambda: iter(["a" * 2**20] * 1024), "row 1: is over 16 MB"),
    "an open quote": (
        ".csv.gz",
        lambda: iter(['text,label\n"a\n', *(["a,b\n" * 2**18] * 1024)]),
        "double quote",
    ),
    "many rows": (".csv.gz", lambda: cells(70, 15), ""),
    "one cell of tabs": (
        ".tsv.gz",
        lambda: iter(["text\tlabel\n", *(["a" * 2**20] * 1024)]),
        "row 1: is over 16 MB",
    ),
}
READS = """
import sys
from pathlib import Path
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
try:
    count = sum(1 for _ in open_dataset("table", Path(sys.argv[1])))
    print(count)
except BadInput as error:
    print(error)
# Not `getrusage`, which begins with the memory of the process that started this one.
print(1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]))
"""


def reading(file: Path) -> tuple[str, int]:
    """What reading a table in a process of its own says, and the most memory that it takes."""
    command = [sys.executable, "-c", READS, str(file)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    *said, memory = done.stdout.splitlines()
    return "\n".join(said), int(memory)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", BOMBS)
def test_no_table_takes_much_memory(tmp_path: Path, kind: str) -> None:
    suffix, parts, expected = BOMBS[kind]
    with gzip.open(tmp_path / f"t{suffix}", "wt", compresslevel=1) as file:
        for part in parts():
            file.write(part)
    said, memory = reading(tmp_path / f"t{suffix}")
    assert memory < MOST_MEMORY
    assert expected in said
    if not expected:
        assert said == "70"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("rows", [1, 300])
def test_parquet_is_read_in_batches_of_bounded_rows(tmp_path: Path, rows: int) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["a" * (2**20 if rows > 1 else 2**26)] * rows
    pq.write_table(
        pa.table({"text": texts}), tmp_path / "t.parquet", use_dictionary=False, write_batch_size=8
    )
    said, memory = reading(tmp_path / "t.parquet")
    assert memory < MOST_MEMORY
    assert said == "300" if rows > 1 else "row 1: is over 16 MB" in said


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json"])
def test_where_a_row_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, over: int
) -> None:
    monkeypatch.setattr(bounded_text, "MOST_ROW", 1000)
    wrapped = {
        ".csv": ("text\n", "", "\n"),
        ".jsonl": ("", '{"text": "', '"}\n'),
        ".json": ("[\n", '{"text": "', '"}'),
    }
    first, before, after = wrapped[suffix]
    text = "é" * (1000 - len(before + after) + over)
    last = "\n]" if suffix == ".json" else ""
    (tmp_path / f"t{suffix}").write_text(f"{first}{before}{text}{after}{last}", "utf-8")
    rows = read_rows(tmp_path / f"t{suffix}", "table")
    if over > 0:
        with pytest.raises(BadInput, match=rf"t\{suffix}: row 1: is over"):
            list(rows)
    else:
        assert [row.text("text") for row in rows] == [text]


VALUES: list[Any] = [
    {"text": "a"}, {"text": 'qu"ote \\ é 😀 ]}', "more": [1, {"x": [[]]}, None, True, 1.5e-7]}, {},
    {"number": 12345678901234567890}, {"text": "long " * 400},
]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 65536])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("keyed", [False, True])
def test_an_array_is_read_piece_by_piece_as_it_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, indent: int | None, keyed: bool
) -> None:
    monkeypatch.setattr(bounded_text, "_CHUNK", chunk)
    named = {f"k{number}": value for number, value in enumerate(VALUES)}
    (tmp_path / "t.json").write_text(
        json.dumps(named if keyed else VALUES, indent=indent, ensure_ascii=False), "utf-8"
    )
    rows = list(read_rows(tmp_path / "t.json", "table", keyed=keyed))
    assert [row.cells for row in rows] == VALUES
    assert [row.number for row in rows] == (
        list(named) if keyed else list(range(1, len(VALUES) + 1))
    )


@pytest.mark.parametrize("chunk", [1, 5, 65536])
@pytest.mark.parametrize(
    ("content", "row"),
    [
        ('[{"text": "a"}, {"text": b}]', 2), ('[{"text": "a"} {"text": "b"}]', 2), ('[{"text": "a"},', 2),
        ('[{"text": "a"}', 2), ('[{"text": "a', 1), ("[", 1), ("[,]", 1), ('[{"text": "\\u12', 1), ("[tru", 1),
        ('[{"text": "a"},]', 2),
    ],
)  # fmt: skip
def test_an_array_that_breaks_off_or_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, content: str, row: int
) -> None:
    monkeypatch.setattr(bounded_text, "_CHUNK", chunk)
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(BadInput, match=rf"t\.json: row {row}: not JSON"):
        list(read_rows(tmp_path / "t.json", "table"))
