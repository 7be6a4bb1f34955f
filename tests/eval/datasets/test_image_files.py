"""An image that a table names is found whatever system wrote its path, and none outside the table's folder."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from tribunal.eval.datasets.stored_data import ImageFinder

CAFE = "café.png"
FOUND = [
    ("img/a.png", "img/a.png"),
    ("./img/a.png", "img/a.png"),
    ("img//x/../a.png", "img/a.png"),
    ("  img/a.png\t", "img/a.png"),
    ('"img/a.png"', "img/a.png"),
    ("img\\a.png", "img/a.png"),
    (".\\img\\a.png", "img/a.png"),
    ("C:\\data\\img\\a.png", "img/a.png"),
    ("c:/data/img/a.png", "img/a.png"),
    ("\\\\server\\share\\img\\a.png", "img/a.png"),
    ("C:\\somewhere\\else\\b.png", "b.png"),
    ("/home/kim/set/img/a.png", "img/a.png"),
    ("file:///home/kim/img/a.png", "img/a.png"),
    ("file:///C:/data/img/a.png", "img/a.png"),
    ("file:img/a.png", "img/a.png"),
    ("IMG/A.PNG", "img/a.png"),
    ("img\\A.Png", "img/a.png"),
    ("img/with%20blank.png", "img/with blank.png"),
    ("file:///x/img/with%20blank.png", "img/with blank.png"),
    ("img/50%25.png", "img/50%25.png"),
    (unicodedata.normalize("NFD", CAFE), CAFE),
    (unicodedata.normalize("NFC", "CAFÉ.png"), CAFE),
]
LOST = ["img/c.png", "c.png", "img", ".", "", "/", "../set/img/a.png", "..\\set\\b.png", "img/../../secret.png",
        "%2e%2e/secret.png", "/etc/hostname", "img/a.png/b", "a\0.png", "x" * 5000, "twins/D.png"]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = [
        "img/a.png",
        "b.png",
        "img/with blank.png",
        "img/50%25.png",
        unicodedata.normalize("NFC", CAFE),
    ]
    for name in [*names, "twins/d.png", "twins/d.PNG", "../secret.png"]:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "set"


@pytest.mark.parametrize(("reference", "path"), FOUND)
def test_it_is_found(folder: Path, reference: str, path: str) -> None:
    assert ImageFinder(folder).find_file(reference) == folder / path


def test_a_file_in_nfd_is_found_by_nfc(folder: Path) -> None:
    (folder / CAFE).rename(folder / unicodedata.normalize("NFD", CAFE))
    found = ImageFinder(folder).find_file(CAFE)
    assert found is not None
    assert found.is_file()


@pytest.mark.skipif(os.name == "nt", reason="names there differ by more than letter case")
@pytest.mark.parametrize("reference", LOST)
def test_it_is_not_found(folder: Path, reference: str) -> None:
    assert ImageFinder(folder).find_file(reference) is None
