"""The config that a run takes of its caller. LangChain is imported only if the caller gives one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tribunal.errors import BadInput
from tribunal.process.model_objects import MODEL_SETTINGS, model_settings_in

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

# A run has no thread, checkpointer, stream or step limit of its caller's: these stay with the caller.
_TAKEN = ("callbacks", "tags", "metadata", "run_name", "run_id")


def caller_config(config: Mapping[str, Any] | None) -> RunnableConfig:
    """Return what a run takes of its caller's config: callbacks, tags, metadata, run_name, run_id.

    `configurable` is kept for configurable models only (`MODEL_SETTINGS`): it names no thread and no checkpoint here.

    Raises:
        BadInput: it is no config of LangChain's.
    """
    if config is None or config == {}:
        return {}
    if not isinstance(config, Mapping):
        raise BadInput(
            f"config: {type(config).__name__}: is no config; give a dict such as {{'callbacks': [handler]}}"
        )
    from langchain_core.runnables import RunnableConfig

    unknown = next(
        (str(name) for name in config if name not in RunnableConfig.__annotations__), None
    )
    if unknown:
        raise BadInput(
            f"config: {unknown}: LangChain's config has no such key; use {', '.join(_TAKEN)} or configurable"
        )
    taken = {name: config[name] for name in _TAKEN if config.get(name) is not None}
    chosen = model_settings_in(config)
    if chosen:
        taken["configurable"] = {MODEL_SETTINGS: chosen}
    return cast("RunnableConfig", taken)


def merge_metadata(config: RunnableConfig | None, metadata: Mapping[str, Any]) -> RunnableConfig:
    """Return a config with more metadata, but for empty ones; what the caller has set under the same name stays."""
    given = caller_config(config)
    more = {name: value for name, value in metadata.items() if value}
    return {**given, "metadata": {**more, **given.get("metadata", {})}}


def config_of_run(name: str, config: RunnableConfig | None = None) -> RunnableConfig:
    """Return the config of each post of a run over many: the caller's, and the run's name in its metadata.

    Raises:
        BadInput: it is no config of LangChain's, or it has the id of one trace.
    """
    given = caller_config(config)
    if "run_id" in given:
        raise BadInput("config: run_id: each post has a trace of its own; leave it out")
    return merge_metadata(given, {"run": name})
