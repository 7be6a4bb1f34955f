"""The discovery document, from which Google's clients build themselves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tribunal.service.dropins.comments import AnalyzeCommentRequest, AnalyzeCommentResponse
from tribunal.service.replica.problems import Problem

NAME, VERSION = "commentanalyzer", "v1alpha1"


def document(root: str) -> dict[str, Any]:
    """The document of the one method that is served.

    Args:
        root: the service's address as the client has it, with a slash at its end.
    """
    request, response = AnalyzeCommentRequest, AnalyzeCommentResponse
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"{NAME}:{VERSION}",
        "name": NAME,
        "version": VERSION,
        "title": "Tribunal in place of the Perspective Comment Analyzer API",
        "description": "Scores comments for IDENTITY_ATTACK and HATE_SPEECH.",
        "protocol": "rest",
        "rootUrl": root,
        "baseUrl": root,
        "servicePath": "",
        "basePath": "",
        "batchPath": "batch",
        "parameters": {
            "key": {"type": "string", "location": "query", "description": "A key made by tribunal keys add."},
            "alt": {"type": "string", "location": "query", "description": "The form of the answer.", "default": "json"},
        },
        "schemas": {**_schemas(request), **_schemas(response)},
        "resources": {
            "comments": {
                "methods": {
                    "analyze": {
                        "id": f"{NAME}.comments.analyze",
                        "path": f"{VERSION}/comments:analyze",
                        "flatPath": f"{VERSION}/comments:analyze",
                        "httpMethod": "POST",
                        "description": "Scores a comment for the requested attributes.",
                        "parameters": {},
                        "parameterOrder": [],
                        "request": {"$ref": request.__name__},
                        "response": {"$ref": response.__name__},
                    }
                }
            }
        },
    }


def check(version: str | None) -> None:
    """See that the version is the one that is served.

    Raises:
        Problem: it is another.
    """
    if version not in (None, VERSION):
        raise Problem("not_found", f"version: {version[:40]}: there is only {VERSION}")


def _schemas(model: type[BaseModel]) -> dict[str, Any]:
    """A model and those that it is made of, as a discovery document writes them."""
    whole = model.model_json_schema(ref_template="{model}")
    named = {model.__name__: whole, **whole.pop("$defs", {})}
    return {
        name: {
            "id": name,
            "type": "object",
            "description": schema.get("description", ""),
            "properties": {field: _written(each) for field, each in schema["properties"].items()},
        }
        for name, schema in named.items()
    }


def _written(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    kind = {**schema, **kinds[0]}
    words = {"description": schema["description"]} if "description" in schema else {}
    if "$ref" in kind:
        return {**words, "$ref": kind["$ref"]}
    written: dict[str, Any] = {**words, "type": kind["type"]}
    if "enum" in kind:
        written["enum"] = kind["enum"]
    if "items" in kind:
        written["items"] = _written(kind["items"])
    if isinstance(kind.get("additionalProperties"), dict):
        written["additionalProperties"] = _written(kind["additionalProperties"])
    return written
