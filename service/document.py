"""The OpenAPI document, completed: FastAPI doesn't know what the app makes of errors, nor composes examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from tribunal.schema import JSON
from tribunal.service.words import RECORD, WORDS

_REF = "#/components/schemas/"
_OF_ANY_BODY = {"408": "error: timeout", "413": "error: too_large", "415": "error: wrong_type"}
_PLAIN: dict[str, Any] = {"string": "…", "integer": 0, "number": 0.0, "boolean": False, "null": None}


class Documented(FastAPI):
    """An application whose document is complete."""

    def openapi(self) -> dict[str, Any]:
        """The document; made once."""
        made = self.openapi_schema is not None
        document = super().openapi()
        return document if made else completed(document)

    def show_document(self) -> None:
        """Show it at `/docs` by Swagger UI from our own files: where the service runs, a CDN may be out of reach."""
        files = StaticFiles(packages=[("fastapi_offline", "static")])
        self.mount("/docs/files", files, name="document_files")
        self.add_api_route("/docs", _page, include_in_schema=False, response_class=HTMLResponse)


def _page(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "").rstrip("/")
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title="Tribunal: the HTTP API",
        swagger_js_url=f"{root}/docs/files/swagger-ui-bundle.js",
        swagger_css_url=f"{root}/docs/files/swagger-ui.css",
        swagger_favicon_url=f"{root}/docs/files/favicon.png",
    )


def completed(document: JSON) -> JSON:
    """FastAPI's document, completed in place."""
    schemas: JSON = document["components"]["schemas"]
    for name in (
        "HTTPValidationError",
        "ValidationError",
    ):  # never sent: a wrong field is 400, in the route's own shape
        schemas.pop(name, None)
    for model, fields in WORDS.items():
        for field, words in fields.items():
            schemas[model]["properties"][field] = {"description": words, **schemas[model]["properties"][field]}
    for methods in document["paths"].values():
        for operation in methods.values():
            _complete(operation, schemas)
    return document


def _complete(operation: JSON, schemas: JSON) -> None:
    responses: JSON = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    taken = operation.get("requestBody", {}).get("content", {})
    if taken:
        for status, words in _OF_ANY_BODY.items():
            responses.setdefault(status, {"description": words, "content": _alike(responses["400"]["content"])})
    contents = [*taken.items(), *(pair for each in responses.values() for pair in each.get("content", {}).items())]
    for _, content in contents:
        if "example" not in content and "examples" not in content:
            content["example"] = example(content.get("schema", {}), schemas)
        elif "example" in content:
            _restore(content["example"], content.get("schema", {}), schemas)


def _alike(content: JSON) -> JSON:
    """The same shape, with an example to be made."""
    return {kind: {"schema": each["schema"]} for kind, each in content.items()}


def _restore(value: Any, schema: JSON, schemas: JSON) -> None:
    """Put the nulls back into an example, which FastAPI leaves out."""
    schema = schemas[schema["$ref"].removeprefix(_REF)] if "$ref" in schema else schema
    if isinstance(value, dict):
        for name, each in schema.get("properties", {}).items():
            if name in schema.get("required", ()):
                value.setdefault(name, None)
            _restore(value.get(name), each, schemas)


def example(schema: JSON, schemas: JSON) -> Any:
    """A value of a schema, made of the examples and the defaults of its parts.

    Args:
        schema: of JSON Schema.
        schemas: those that it may refer to, by name.
    """
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return RECORD if name == "Record" else example(schemas[name], schemas)
    for key in ("examples", "enum", "anyOf", "oneOf", "allOf"):
        if schema.get(key):
            first = schema[key][0]
            return example(first, schemas) if key.endswith("Of") else first
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "properties" in schema:
        return {name: example(each, schemas) for name, each in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example(schema["items"], schemas)]
    return {} if schema.get("type") == "object" else _PLAIN.get(schema.get("type", "null"))
