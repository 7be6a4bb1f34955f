"""What belongs to one event loop, and what must not hold one up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

Thing = TypeVar("Thing")


class PerLoop(Generic[Thing]):
    """What `make` makes, once for each running event loop, or once for each key on it; `close` ends it with the loop.

    A loop closes the asynchronous generators that were begun on it when it shuts down (`asyncio.run` sees to that);
    there is no other such moment, so a generator waits here for it.
    """

    def __init__(
        self, make: Callable[..., Awaitable[Thing]], close: Callable[[Thing], Awaitable[object]] | None = None
    ) -> None:
        self._make, self._close = make, close
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held[Thing]] = WeakKeyDictionary()

    async def here(self, *key: Hashable) -> Thing:
        """The running loop's own, made at first use.

        Args:
            key: which one, where there are several: what `make` is called with.
        """
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            held = self._held[loop] = _Held()
        if key not in held.things:
            async with held.making:  # one at a time, so that nothing is made twice
                if key not in held.things:
                    made = await self._make(*key)
                    keeper = self._kept(key, made)
                    held.things[key] = made, keeper
                    await anext(keeper)
        return held.things[key][0]

    async def _kept(self, key: tuple[Hashable, ...], made: Thing) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            loop = asyncio.get_running_loop()
            if held := self._held.get(loop):
                held.things.pop(key, None)
                if not held.things:
                    del self._held[loop]
            if self._close:
                await self._close(made)


class _Held(Generic[Thing]):
    """The things of one loop, each with the generator that waits for its end."""

    def __init__(self) -> None:
        self.things: dict[tuple[Hashable, ...], tuple[Thing, AsyncGenerator[None]]] = {}
        self.making = asyncio.Lock()


async def aside(work: Callable[[], Thing], name: str) -> Thing:
    """What `work` gives, or raises, on a thread of its own, which is left behind when nobody waits for it any more.

    A pool would be the worse for every call that hangs, and the program would wait for it before it ends.

    Args:
        work: what blocks, and may do so for ever.
        name: the thread's.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Thing] = loop.create_future()

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


def run_many(main: Coroutine[Any, Any, Thing]) -> Thing:
    """What a coroutine gives, or raises, as `asyncio.run` has it, on uvloop's event loop where that is installed: a run
    or a service waits for many models at once, and with uvloop a call costs a tenth less of the processor. (A command
    that makes few calls would pay more for its import.)

    Args:
        main: what is to be done.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:  # Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def run_in_background(begin: Callable[[], Coroutine[Any, Any, Thing]]) -> Thing:
    """Run a coroutine on the background event loop of this process, and return its result to a caller that can't await.

    The loop has a thread of its own, begins at its first use, and ends with the main thread. So what belongs to a loop,
    such as clients of models, serves every later call too. The coroutine has the caller's context variables.

    Args:
        begin: makes the coroutine.

    Raises:
        RuntimeError: the caller runs on the background loop itself, which would wait for ever.
    """
    loop = _background.loop()
    if _background.is_current_thread():
        raise RuntimeError("a synchronous call inside an asynchronous node would wait for itself; await ainvoke there")
    future = asyncio.run_coroutine_threadsafe(begin(), loop)
    try:
        return future.result()
    finally:
        future.cancel()  # the caller was interrupted; a future that is done heeds it no more


class _BackgroundLoop:
    """One event loop on a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_current_thread(self) -> bool:
        """Return whether the caller runs on the loop's thread."""
        return threading.current_thread() is self._thread

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, begun if it doesn't run: at first use, and in a process that was forked since."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                begun: Future[asyncio.AbstractEventLoop] = Future()
                self._thread = threading.Thread(target=lambda: asyncio.run(_serve(begun)), name="tribunal background")
                self._thread.start()
                self._loop = begun.result()
            return self._loop


async def _serve(begun: Future[asyncio.AbstractEventLoop]) -> None:
    """Keep a loop running until the main thread ends; `asyncio.run` then closes what was opened on it."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def wait_for_main_thread() -> None:
        threading.main_thread().join()
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=wait_for_main_thread, name="tribunal background end").start()
    begun.set_result(loop)
    await over.wait()


_background = _BackgroundLoop()
