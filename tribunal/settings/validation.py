"""Errors of pydantic's in one line, and TOML files as models."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tribunal.core.text import parse_toml, shorten_repr
from tribunal.errors import BadInput
from tribunal.process.files import read_regular

Model = TypeVar("Model", bound=BaseModel)


def describe_validation_error(error: ValidationError) -> str:
    """Return a validation error as one line: field, value, and the expected value."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "settings"
    return f"{field}: {shorten_repr(first['input'])}: {first['msg'].removeprefix('Value error, ')}"


def read_toml_model(model: type[Model], path: Path, called: str) -> Model:
    """Return the content of a TOML file, as a model; raise `BadInput` if it can't be read, or a field is wrong."""
    try:
        return model.model_validate(parse_toml(read_regular(path)))
    except OSError as error:
        raise BadInput(f"{called}: {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadInput(f"{called}: {path}: {describe_validation_error(error)}") from error
    except ValueError as error:
        raise BadInput(f"{called}: {path}: is not TOML: {error}") from error
