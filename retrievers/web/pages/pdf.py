"""The text of a PDF."""

from __future__ import annotations

import time
from io import BytesIO

from tribunal.retrievers.web.pages.text import MAX_CHARACTERS, PageUnreadable, Text, language_tag

MAX_PDF_PAGES = 200


def read_pdf(body: bytes, charset: str | None, seconds: float) -> Text:
    """What a PDF says, as far as the seconds go.

    Raises:
        PageUnreadable: it is broken, or asks for a password.
    """
    import pypdf
    from pypdf.errors import FileNotDecryptedError, PyPdfError

    until = time.monotonic() + seconds
    texts: list[str] = []
    try:
        reader = pypdf.PdfReader(BytesIO(body))
        pages = len(reader.pages)
        for page in reader.pages[:MAX_PDF_PAGES]:
            if time.monotonic() > until or sum(map(len, texts)) > MAX_CHARACTERS:
                break
            texts.append(page.extract_text())
        about = reader.metadata
        title = str((about.title if about else None) or "")
        created = about.creation_date if about else None
        language = reader.root_object.get("/Lang")
    except FileNotDecryptedError as error:
        raise PageUnreadable("encrypted", "the PDF asks for a password") from error
    except PyPdfError as error:
        raise PageUnreadable("broken", f"not a readable PDF: {error}") from error
    return Text(
        title=title,
        text="\n\n".join(texts),
        language=language_tag(str(language or "")),
        date=created.date().isoformat() if created else None,
        truncated=len(texts) < pages,
    )
