"""The LangChain config of a case's run: what the caller gives, and what every trace of it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.constants import TAG_NOSTREAM

from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.nodes.intake import name_post
from tribunal.prompts.policy import policy_in_force

# A run has no thread, checkpointer, stream or step limit of its caller's: these stay with the caller.
TAKEN = ("callbacks", "tags", "metadata", "run_name", "run_id")
_KNOWN = frozenset(RunnableConfig.__annotations__)


def caller_config(config: Mapping[str, Any] | None) -> RunnableConfig:
    """Return what a run takes of its caller's config: callbacks, tags, metadata, run_name and run_id.

    Raises:
        BadInput: it is no config of LangChain's.
    """
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise BadInput(f"config: {type(config).__name__}: is no config; give a dict such as {{'callbacks': [handler]}}")
    if unknown := next((str(name) for name in config if name not in _KNOWN), None):
        raise BadInput(
            f"config: {unknown}: LangChain's config has no such key; those that count are {', '.join(TAKEN)}"
        )
    return cast("RunnableConfig", {name: config[name] for name in TAKEN if config.get(name) is not None})


def agent_config(config: RunnableConfig) -> RunnableConfig:
    """Return what a tool's run takes of the config of the agent that calls it.

    A handler of the agent's hears every call; the words of our seats don't stream as the agent's own.
    """
    return merge_configs(caller_config(config), {"tags": [TAG_NOSTREAM]})


def merge_metadata(config: RunnableConfig | None, metadata: Mapping[str, Any]) -> RunnableConfig:
    """Return a config with more metadata; what the caller has set under the same name stays."""
    given = caller_config(config)
    return {**given, "metadata": {**metadata, **given.get("metadata", {})}}


def config_of_run(name: str, config: RunnableConfig | None = None) -> RunnableConfig:
    """Return the config of each post of a run over many: the caller's, and the run's name in its metadata.

    Raises:
        BadInput: it is no config of LangChain's, or it has the id of one trace.
    """
    given = caller_config(config)
    if "run_id" in given:
        raise BadInput("config: run_id: each post has a trace of its own; leave it out")
    return merge_metadata(given, {"run": name})


async def root_config(graph: str, given: Any, context: Context, config: RunnableConfig | None) -> RunnableConfig:
    """Return the config of a graph's run: the caller's, and the metadata by which a trace is found.

    Args:
        graph: the graph's name, or its file.
        given: the post; anything else where a case goes on.
        context: the settings.
        config: the caller's.
    """
    metadata: dict[str, Any] = {"graph": graph}
    if isinstance(given, dict):
        metadata["post_id"] = await name_post(cast("Any", given), context)
        metadata["policy"] = await _policy_hash(context)
    return merge_metadata(config, {name: value for name, value in metadata.items() if value})


async def _policy_hash(context: Context) -> str | None:
    try:
        return (await policy_in_force(context.policy)).sha
    except BadInput:
        return None  # `receive` says what is wrong
