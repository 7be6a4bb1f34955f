"""Definition of a provider: its address, keys, protocol and client.

Ours have a file each in this folder. `tribunal.models.registry` finds any provider by its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from tribunal.errors import BadInput
from tribunal.models.providers.connections import check_proxy
from tribunal.models.providers.http import add_path
from tribunal.schema import JSON
from tribunal.settings.environment import check_trusted

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ResponseFormat = Literal["json_schema", "tool_call", "json_object", "prompt"]
# The keywords by which a JSON schema bounds lists, numbers and strings.
LISTS = frozenset({"minItems", "maxItems"})
RANGES = frozenset({"minimum", "maximum"})
LENGTHS = frozenset({"minLength", "maxLength"})


@dataclass(frozen=True, slots=True)
class ModelName:
    """One model of one provider, written `provider:model`.

    `number` is that of a model object that the caller gave (`tribunal.process.model_objects`); 0: the model was named.
    """

    provider: str
    model: str
    number: int = 0

    def __str__(self) -> str:
        """Return `provider:model`."""
        return f"{self.provider}:{self.model}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model's address and key. None: the client knows the address; the provider takes no key.

    `environment` has the settings outside the run, including those of a `.env` file.
    """

    name: ModelName
    base_url: str | None
    key: str | None = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def model(self) -> str:
        """The model, as its provider calls it."""
        return self.name.model


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The settings of one request.

    `envelope` is the form's JSON schema as `{"name": …, "strict": True, "schema": …}`; `rung` says how it is asked for.
    `prompt_tokens` is how many the request may have at most, by its length; `extra` are further fields of the body,
    from the setting `extra_body`. `base_url` is where it goes; `stream` is False where the server won't stream;
    `limit_name` is the place of the limit's name in the provider's `limit_names`; past their end no limit is sent.
    """

    response_format: ResponseFormat
    envelope: JSON
    temperature: float | None
    max_output_tokens: int
    prompt_tokens: int = 0
    extra: JSON = field(default_factory=dict)
    base_url: str | None = None
    stream: bool = True
    limit_name: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingApi:
    """A provider's way to embed, by a POST of JSON.

    Attributes:
        path: the path after the base URL; `{model}` in it is replaced by the model's name.
        most_texts: how many texts one request may carry.
        body: the request, made of the model, the texts, and their use: `query` or `passage`.
        rows: the vectors in an answer, in the order of the texts. An answer of another shape raises KeyError, TypeError
            or ValueError.
        keys: the settings that the key of an embedding server apart from the chat server is read from, in order.
        base_urls: the settings that its address is read from; none: it has none apart.
    """

    path: str
    most_texts: int
    body: Callable[[str, Sequence[str], Literal["query", "passage"]], JSON]
    rows: Callable[[Any], list[list[float]]]
    keys: tuple[str, ...] = ()
    base_urls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Everything that differs between providers, but for the forms in which they decline or fail.

    Attributes:
        name: the part before the colon in a model's name.
        make: makes the client of an endpoint. The client must try once: the door retries, and a client that does so too
            would multiply the tries. It must follow no redirect, which would carry the key to anywhere.
        options: the settings of a request, in the words of that client; none by default.
        close: closes a client, where it has connections of its own.
        keys: the settings that keys are read from, in order; none: it takes no key.
        read_by_its_client: the settings that its client reads a key from by itself.
        base_urls: the settings that the address is read from, in order.
        default_url: the address where none of them is set; None: the client knows it.
        rest_url: the address for plain HTTP where `default_url` is None.
        where: where a key is had.
        keyless_elsewhere: whether a server at another address than `default_url` takes none.
        headers: how a key goes with a plain HTTP request.
        account: the settings that say whose account a request is for, each with its header.
        listing: the path at which it lists its models, which costs nothing; None: it can't be asked.
        embeddings: how it is asked for vectors; None: it gives none.
        only_model: its model, if it has just one; the provider's name then names the model.
        sees_question: whether its client is handed the question itself, as the rehearsal model is.
        bounds: the bounds that its schemas accept. A custom server is assumed to accept them all.
        forms: the ways in which it is asked for a form, the best one first; the last one is the words of the request.
        limit_names: the names that the token limit may have, if it can be renamed or left out.
        always_streams: whether its client streams to itself even where nobody listens.
        takes_extra: whether `options` sends the further fields that the setting `extra_body` gives.
        bare_port: the port of an address that stands without `http://`, as OLLAMA_HOST may; None: such a one is none.
        takes_temperature: whether `options` sends the temperature.
        takes_limit: whether it sends the limit of the answer.
        adjust: returns the client as one request needs it, for clients that take no settings with a request.
        client: the model object that the caller gave, in place of one that `make` makes.
        extra: the extra of our package that installs its client, or None if the core has it.
    """

    name: str
    make: Callable[[Endpoint], BaseChatModel]
    options: Callable[[RequestSettings], JSON] = lambda wanted: {}
    close: Callable[[Any], Awaitable[Any]] | None = None
    keys: tuple[str, ...] = ()
    read_by_its_client: tuple[str, ...] = ()
    base_urls: tuple[str, ...] = ()
    default_url: str | None = None
    rest_url: str | None = None
    where: str = ""
    keyless_elsewhere: bool = False
    headers: Callable[[str | None], dict[str, str]] = lambda key: (
        {"Authorization": f"Bearer {key}"} if key else {}
    )
    account: tuple[tuple[str, str], ...] = ()
    listing: str | None = None
    embeddings: EmbeddingApi | None = None
    only_model: str | None = None
    sees_question: bool = False
    bounds: frozenset[str] = frozenset()
    forms: tuple[ResponseFormat, ...] = ("json_schema", "json_object", "prompt")
    limit_names: tuple[str, ...] = ()
    always_streams: bool = False
    takes_extra: bool = False
    bare_port: int | None = None
    takes_temperature: bool = True
    takes_limit: bool = True
    adjust: Callable[[Any, RequestSettings], Any] = lambda client, wanted: client
    client: Any = field(default=None, repr=False, compare=False)
    extra: str | None = None

    @property
    def takes_no_key(self) -> bool:
        """Return whether the provider takes no key at all."""
        return not self.keys

    def base_url(self, environment: Mapping[str, str]) -> str | None:
        """Return its address.

        Raises:
            BadInput: it is set in a `.env` file that isn't trusted.
        """
        name = self.address_setting(environment)
        if name is None:
            for each in self.base_urls:
                check_trusted(environment, each)
            return self.default_url
        url = environment[name]
        if self.bare_port is None or "://" in url:
            return url
        return f"http://{url}" if ":" in url else f"http://{url}:{self.bare_port}"

    def address_setting(self, environment: Mapping[str, str]) -> str | None:
        """Return the setting that its address is read from, or None if none of them is set."""
        return next((name for name in self.base_urls if environment.get(name)), None)

    def describe_address_setting(self, kind: str, environment: Mapping[str, str]) -> str:
        """Return where the address of a server was set that is unreachable (`connection`) or has moved (`moved`)."""
        name = self.address_setting(environment)
        first = next(iter(self.base_urls), None)
        if kind == "moved" and (name or first):
            return f" ({name or first})"
        if kind == "connection" and name:
            return f"; is its server running? The address is that of {name}"
        if kind == "connection" and self.takes_no_key and first:
            return f"; is its server running? {first} sets another address"
        return ""

    def check_address(self, environment: Mapping[str, str]) -> None:
        """Raise `BadInput` where its address is none that a request can be sent to, or its proxy lacks a package."""
        name = self.address_setting(environment)
        url = self.base_url(environment)
        if (
            name
            and url
            and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc)
        ):
            raise BadInput(
                f"{name}: {environment[name]!r}: not an http(s) address; begin it with http:// or https://"
            )
        address = urlsplit(url or self.rest_url or "")
        if address.hostname:
            check_proxy(address.scheme, address.hostname)

    def request_url(self, environment: Mapping[str, str], path: str) -> str:
        """Return the address of a plain HTTP request."""
        return add_path(self.base_url(environment) or self.rest_url or "", path)

    def account_headers(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that say whose account a request is for."""
        return {header: environment[name] for name, header in self.account if environment.get(name)}

    def for_embeddings(self, environment: Mapping[str, str]) -> Provider:
        """Return this provider as it is asked for vectors.

        Where an embedding server has an address of its own, it has that address and its own keys, and never those of
        the chat server.

        Raises:
            BadInput: that server's key is set, and its address isn't.
        """
        apart = self._embedding_server()
        if apart is None:
            return self
        apart.base_url(environment)  # refuses an address of its own that isn't trusted
        if apart.address_setting(environment):
            return apart
        if apart.key_pool(environment):
            raise BadInput(
                f"{apart.keys[0]}: is set, and no address that it is for; set {apart.base_urls[0]} too "
                f"({self.default_url} for {self.name} itself)"
            )
        return self

    def _embedding_server(self) -> Provider | None:
        """Return the provider of an embedding server apart from the chat server, or None if there can't be one."""
        own = self.embeddings
        if own is None or not own.base_urls:
            return None
        return replace(
            self,
            keys=own.keys,
            base_urls=own.base_urls,
            read_by_its_client=(),
            account=(),
            embeddings=None,
        )

    def key_pool(self, environment: Mapping[str, str]) -> list[str]:
        """Return every key of the provider: NAME, then NAME_1, NAME_2, … of the first of its names that has any."""
        for name in self.keys:
            numbered = sorted(
                (int(tail), value)
                for full, value in environment.items()
                if full.startswith(f"{name}_")
                and (tail := full.removeprefix(f"{name}_")).isdecimal()
                and value
            )
            found = [environment.get(name, ""), *(value for _, value in numbered)]
            if any(found):
                return list(dict.fromkeys(filter(None, found)))
        return []

    def all_secrets(self, environment: Mapping[str, str]) -> set[str]:
        """Return every key that a client of its may send, and the password in its address."""
        held = {
            *self.key_pool(environment),
            *(environment.get(name, "") for name in self.read_by_its_client),
        }
        with suppress(ValueError):  # the address is none, which is said where it is asked
            held.add(urlsplit(self.base_url(environment) or "").password or "")
        apart = self._embedding_server()
        if apart:
            held |= apart.all_secrets(environment)
        return held - {""}

    def needs_key(self, environment: Mapping[str, str]) -> bool:
        """Return whether the provider can't be asked without a key."""
        elsewhere = self.keyless_elsewhere and self.base_url(environment) != self.default_url
        return not self.takes_no_key and not elsewhere

    def schema_bounds(self, environment: Mapping[str, str]) -> frozenset[str]:
        """Return the bounds that a schema can use."""
        return (
            self.bounds if self.client or self.needs_key(environment) else LISTS | RANGES | LENGTHS
        )
