"""Keep what belongs to one event loop, and run what must not hold one up."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

Resource = TypeVar("Resource")
_Key = tuple[Hashable, ...]


class PerLoop(Generic[Resource]):
    """Keep what `make` makes, once for each running event loop and key; `close` ends it with the loop.

    A loop closes the asynchronous generators that were begun on it when it shuts down (`asyncio.run` sees to that);
    there is no other such moment, so a generator waits here for it.
    """

    def __init__(
        self,
        make: Callable[..., Awaitable[Resource]],
        close: Callable[[Resource], Awaitable[object]] | None = None,
    ) -> None:
        """Keep what `make` makes."""
        self._make = make
        self._close = close
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._held: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[_Key, tuple[Resource, AsyncGenerator[None]]]
        ] = WeakKeyDictionary()

    async def get(self, *key: Hashable) -> Resource:
        """Return the running loop's own, made at first use.

        Args:
            key: the key, if there are several: the argument of `make`.
        """
        loop = asyncio.get_running_loop()
        held = self._held.setdefault(loop, {})
        if key not in held:
            async with self._locks.setdefault(
                loop, asyncio.Lock()
            ):  # one at a time, so that nothing is made twice
                if key not in held:
                    made = await self._make(*key)
                    held[key] = made, self._close_with_loop(held, key)
                    await anext(held[key][1])
        return held[key][0]

    async def _close_with_loop(
        self, held: dict[_Key, tuple[Resource, AsyncGenerator[None]]], key: _Key
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            made, _ = held.pop(key)
            if self._close:
                await self._close(made)


async def run_in_thread(work: Callable[[], Resource], name: str) -> Resource:
    """Return what `work` gives, from a thread of its own, which is left behind when nobody waits for it any more.

    A pool would be the worse for every call that hangs, and the program would wait for it before it ends.

    Args:
        work: what blocks, and may do so for ever.
        name: the thread's.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Resource] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], Any] = done.set_result, work()
        except Exception as error:  # noqa: BLE001 (it is raised where it is waited for)
            outcome = done.set_exception, error
        with suppress(RuntimeError):  # the loop is gone, and nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


def leave_loaded_alone() -> None:
    """Exclude loaded objects from garbage collection, and run it after every 20,000 new objects."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def run_many(main: Coroutine[Any, Any, Resource]) -> Resource:
    """Run a coroutine as `asyncio.run` does, on uvloop's event loop if that is installed.

    A run or a service waits for many models at once, and with uvloop a call costs a tenth less of the processor. A
    command that makes few calls would pay more for its import.
    """
    leave_loaded_alone()
    try:
        from uvloop import new_event_loop
    except ImportError:  # Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


class BackgroundLoop:
    """One event loop on a thread of its own; it begins at its first use, and ends with the main thread."""

    def __init__(self, name: str) -> None:
        """Make a loop that isn't begun yet, with the name of its thread."""
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_current_thread(self) -> bool:
        """Return whether the caller runs on the loop's thread."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, Resource]) -> Future[Resource]:
        """Run a coroutine on the loop, and return its future. The loop is begun again in a process forked since."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                begun: Future[asyncio.AbstractEventLoop] = Future()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(_run_until_main_thread_ends(begun)), name=self._name
                )
                self._thread.start()
                self._loop = begun.result()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


async def _run_until_main_thread_ends(begun: Future[asyncio.AbstractEventLoop]) -> None:
    """Keep a loop running until the main thread ends; `asyncio.run` then closes its resources."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def wait_for_main_thread() -> None:
        threading.main_thread().join()
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=wait_for_main_thread, name="tribunal background end").start()
    begun.set_result(loop)
    await over.wait()


_background = BackgroundLoop("tribunal background")


def run_in_background(begin: Callable[[], Coroutine[Any, Any, Resource]]) -> Resource:
    """Run a coroutine on the background event loop of this process, and return its result to a caller that can't await.

    What belongs to a loop, such as clients of models, serves every later call too. The coroutine has the caller's
    context variables.

    Args:
        begin: makes the coroutine.

    Raises:
        RuntimeError: the caller runs on the background loop itself, which would wait for ever.
    """
    if _background.is_current_thread():
        raise RuntimeError(
            "a synchronous call inside an asynchronous node would wait for itself; await ainvoke there"
        )
    future = _background.submit(begin())
    try:
        return future.result()
    finally:
        future.cancel()  # the caller was interrupted; a future that is done heeds it no more
