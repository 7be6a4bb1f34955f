"""Atheris over one reader: `python -m tests.security.guided "a policy" -runs=100000`."""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["tribunal"], enable_loader_override=False):
    from tests.security.readers import READERS
    from tests.security.test_fuzz import played


def main() -> None:
    name, *rest = sys.argv[1:]
    reader = next(each for each in READERS if each.name == name)
    atheris.Setup([sys.argv[0], *rest], lambda body: played(reader, body))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
