"""Reading pages in processes of their own (`tribunal.workers`), where nothing in a page is executed."""

from __future__ import annotations

from pydantic import Field

from tribunal.retrievers.web.pages.parsing import READERS
from tribunal.retrievers.web.pages.text import PageUnreadable, Text
from tribunal.schema import Frozen
from tribunal.workers import WorkerDied, WorkerLate, Workers


class ReadLimits(Frozen):
    """What reading one page may take."""

    seconds: float = Field(default=20.0, gt=0, description="Seconds of reading; a PDF gives what it has by then.")
    memory: int = Field(default=2 * 2**30, gt=0, description="Bytes of address space of a reading process.")
    start_seconds: float = Field(default=60.0, gt=0, description="Seconds for a reading process to start.")


class Reader:
    """Turns pages into text. Serves any number of readings at once; pages above `processes` wait.

    A process takes about a second to start; `warm` does it ahead.
    """

    def __init__(self, processes: int = 2, limits: ReadLimits | None = None) -> None:
        self.limits = limits or ReadLimits()
        self.workers = Workers(
            "tribunal.retrievers.web.pages.process:work",
            processes=processes,
            memory=self.limits.memory,
            start_seconds=self.limits.start_seconds,
        )

    def warm(self) -> None:
        """Start the processes now, without waiting for them."""
        self.workers.warm()

    async def read(self, body: bytes, content_type: str, charset: str | None = None) -> Text:
        """The text of a page.

        Args:
            body: its bytes, decompressed.
            content_type: its media type, without parameters: HTML, XHTML, PDF or plain text.
            charset: as the server declared it; a byte order mark beats it.

        Raises:
            PageUnreadable: it has no text, isn't what it says it is, or took too long.
        """
        if content_type not in READERS:
            raise PageUnreadable("content_type", f"{content_type} has no text to read")
        seconds = self.limits.seconds
        job = {"content_type": content_type, "charset": charset, "seconds": seconds}
        try:
            # A PDF stops by itself when its time is up, and hands over what it has; hence the second on top.
            answer, _ = await self.workers.ask(job, body, seconds=seconds + 1)
        except WorkerLate as error:
            raise PageUnreadable("timeout", f"reading {error}") from error
        except WorkerDied as error:
            raise PageUnreadable("crashed", "the page crashed its reader") from error
        if "reason" in answer:
            raise PageUnreadable(**answer)
        return Text(**answer)

    def close(self) -> None:
        """End the processes. A reading under way fails."""
        self.workers.close()
