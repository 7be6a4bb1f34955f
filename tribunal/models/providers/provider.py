"""What a provider is: where its models are asked, with which keys, in which words, and by which client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from tribunal.errors import BadInput
from tribunal.schema import JSON

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Rung = Literal["json_schema", "json_object", "prompt"]
# The keywords by which a JSON schema bounds lists, numbers and strings.
LISTS, RANGES = frozenset({"minItems", "maxItems"}), frozenset({"minimum", "maximum"})
LENGTHS = frozenset({"minLength", "maxLength"})


@dataclass(frozen=True, slots=True)
class ModelName:
    """One model of one provider, written `provider:model`."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one model is asked, and with which key. None: the client knows the address; the provider takes no key."""

    name: ModelName
    base_url: str | None
    key: str | None = field(repr=False)

    @property
    def model(self) -> str:
        """The model, as its provider calls it."""
        return self.name.model


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """What is wanted of one answer.

    `envelope` is the form's JSON schema as `{"name": …, "strict": True, "schema": …}`; `rung` says how it is asked for.
    `prompt_tokens` is how many the request may have at most, by its length; `extra` are further fields of the body,
    from the setting `extra_body`.
    """

    rung: Rung
    envelope: JSON
    temperature: float | None
    max_output_tokens: int
    prompt_tokens: int = 0
    extra: JSON = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingApi:
    """How a provider is asked for vectors, by a POST of JSON.

    Attributes:
        path: what follows the base URL; `{model}` in it stands for the model.
        most_texts: how many texts one request may carry.
        body: the request, of the model and the texts.
        rows: the vectors in an answer, in the order of the texts. An answer of another shape raises KeyError, TypeError
            or ValueError.
    """

    path: str
    most_texts: int
    body: Callable[[str, Sequence[str]], JSON]
    rows: Callable[[Any], list[list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Everything that differs between providers, but for the forms in which they decline or fail.

    Attributes:
        name: what stands before the colon in a model's name.
        make: makes the client of an endpoint. The client must try once: the door retries, and a client that does so too
            would multiply the tries.
        options: the settings of a request, in the words of that client.
        close: closes a client.
        keys: the settings that keys are read from, in order; none: it takes no key.
        base_urls: the settings that the address is read from, in order.
        default_url: the address where none of them is set; None: the client knows it.
        rest_url: the address for plain HTTP where `default_url` is None.
        where: where a key is had.
        keyless_elsewhere: whether a server at another address than `default_url` takes none.
        headers: how a key goes with a plain HTTP request.
        listing: the path at which it lists its models, which costs nothing; None: it can't be asked.
        embeddings: how it is asked for vectors; None: it gives none.
        only_model: its one model, where it has just one; the provider's name alone then stands for it.
        sees_question: whether its client is handed the question itself, as the rehearsal model is.
        bounds: which bounds it takes in a schema. A server of one's own is taken to know them all.
        takes_extra: whether `options` sends the further fields that the setting `extra_body` gives.
        bare_port: the port of an address that stands without `http://`, as OLLAMA_HOST may; None: such a one is none.
    """

    name: str
    make: Callable[[Endpoint], BaseChatModel]
    options: Callable[[RequestSettings], JSON]
    close: Callable[[Any], Awaitable[Any]] | None = None
    keys: tuple[str, ...] = ()
    base_urls: tuple[str, ...] = ()
    default_url: str | None = None
    rest_url: str | None = None
    where: str = ""
    keyless_elsewhere: bool = False
    headers: Callable[[str | None], dict[str, str]] = lambda key: {"Authorization": f"Bearer {key}"} if key else {}
    listing: str | None = None
    embeddings: EmbeddingApi | None = None
    only_model: str | None = None
    sees_question: bool = False
    bounds: frozenset[str] = frozenset()
    takes_extra: bool = False
    bare_port: int | None = None

    @property
    def keyless(self) -> bool:
        """Whether it takes no key at all."""
        return not self.keys

    def base_url(self, environment: Mapping[str, str]) -> str | None:
        """Its address."""
        name = self.address_setting(environment)
        if name is None:
            return self.default_url
        url = environment[name]
        if self.bare_port is None or "://" in url:
            return url
        return f"http://{url}" if ":" in url else f"http://{url}:{self.bare_port}"

    def address_setting(self, environment: Mapping[str, str]) -> str | None:
        """The setting that its address is read from; None where none of them is set."""
        return next((name for name in self.base_urls if environment.get(name)), None)

    def check_address(self, environment: Mapping[str, str]) -> None:
        """Raise `BadInput` where its address is none that a request can be sent to."""
        name, url = self.address_setting(environment), self.base_url(environment)
        if name and url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
            raise BadInput(f"{name}: {environment[name]!r}: not an http(s) address; begin it with http:// or https://")

    def url(self, environment: Mapping[str, str], path: str) -> str:
        """Where a plain HTTP request goes."""
        return (self.base_url(environment) or self.rest_url or "").rstrip("/") + path

    def key_pool(self, environment: Mapping[str, str]) -> list[str]:
        """Every key of the provider: NAME, then NAME_1, NAME_2, … of the first of its names that has any."""
        for name in self.keys:
            numbered = sorted(
                (int(tail), value)
                for full, value in environment.items()
                if full.startswith(f"{name}_") and (tail := full.removeprefix(f"{name}_")).isdecimal() and value
            )
            found = [environment[name]] if environment.get(name) else []
            found += [value for _, value in numbered]
            if found:
                return list(dict.fromkeys(found))
        return []

    def keys_wanted(self, environment: Mapping[str, str]) -> bool:
        """Whether it can't be asked without a key."""
        elsewhere = self.keyless_elsewhere and self.base_url(environment) != self.default_url
        return not self.keyless and not elsewhere

    def bounds_taken(self, environment: Mapping[str, str]) -> frozenset[str]:
        """Which bounds may stand in a schema."""
        return self.bounds if self.keys_wanted(environment) else LISTS | RANGES | LENGTHS
