"""`graph` and `builder` for tests that give what a type checker refuses: contexts as tables, states, wrong posts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tribunal import graphs

graph: Callable[..., Any] = graphs.graph
builder: Callable[..., Any] = graphs.builder
