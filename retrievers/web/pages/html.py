"""The text of an HTML page, without what a person would not see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tribunal.retrievers.web.pages.encodings import decode
from tribunal.retrievers.web.pages.text import PageUnreadable, Text, language_tag

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]


def read_html(body: bytes, charset: str | None, seconds: float) -> Text:
    """What an HTML page says; of a charset that the server didn't declare, the page's own counts.

    Raises:
        PageUnreadable: there is nothing in it.
    """
    import lxml.etree  # type: ignore[import-untyped]
    import lxml.html
    import trafilatura

    text = decode(body, charset or _meta_charset(body))
    parser = lxml.html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError as error:
        raise PageUnreadable("no_text", f"there is no page in it ({error})") from error
    _drop_hidden(tree)
    # The quick way for big pages: the thorough one tries several extractors, and each costs a second a megabyte.
    document = trafilatura.bare_extraction(
        tree,
        fast=len(text) > 1_000_000,
        favor_recall=True,
        include_comments=False,
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    found = None if document is None or isinstance(document, dict) else document
    return Text(
        title=(found.title if found else None) or tree.findtext(".//title") or "",
        text=(found.text if found else None) or trafilatura.html2txt(tree),
        language=_declared_language(tree),
        date=found.date if found else None,
    )


_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)


def _meta_charset(body: bytes) -> str | None:
    found = _META_CHARSET.search(body[:4096])
    # A page that could be read this far is no UTF-16, whatever it claims.
    return None if found is None or found[1].lower().startswith(b"utf-16") else found[1].decode("ascii")


# What a person wouldn't see. Not an exhaustive reading of CSS: style sheets of other files, scripts, colours and what
# lies under something else are not looked at. What slips through is text like any other, which the prompts quote and
# never obey.
_HIDING = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0+)?(?![.\d])|font-size:0(?![.\d])"
    r"|(?:^|;)(?:max-)?(?:width|height):[01](?:px)?(?:;|!|$)"
    r"|(?:left|top|right|bottom|text-indent|margin-left|margin-top):-\d{3,}|clip:rect\((?:0|1)(?:px)?,|clip-path:inset\((?:50|100)%",
)
_CLASS_HIDING = re.compile(r"display:none|visibility:hidden|font-size:0(?![.\d])")
_HIDDEN = (
    "//*[@hidden or @aria-hidden='true' or self::template or self::noscript or self::dialog[not(@open)]"
    " or self::input or self::textarea or self::select or self::object or self::iframe]"
)


def _drop_hidden(tree: HtmlElement) -> None:
    """Take out what is not shown: `hidden`, `aria-hidden`, templates, and what inline styles or the page's own simple
    class and id rules hide, shrink to nothing or move off the page. Comments never got into the tree."""
    hiding = _hiding_names("\n".join(style.text or "" for style in tree.iter("style")))
    doomed = list(tree.xpath(_HIDDEN))
    for element in tree.iter():
        style = re.sub(r"\s+", "", element.get("style") or "").lower()
        names = {f".{name}" for name in (element.get("class") or "").split()} | {f"#{element.get('id')}"}
        if (style and _HIDING.search(style)) or names & hiding:
            doomed.append(element)
    for element in doomed:
        if element.tag not in ("html", "head", "body", "style") and element.getparent() is not None:
            element.drop_tree()


def _hiding_names(css: str) -> set[str]:
    """The classes and ids that a style sheet hides outright; rules inside `@media` and its like are left alone."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)[:200_000]
    found, depth, at = set(), 0, 0
    selector = ""
    for match in re.finditer(r"[{}]", css):
        between, at = css[at : match.start()], match.end()
        if match[0] == "{":
            depth += 1
            selector = between.rpartition(";")[2] if depth == 1 else ""
        else:
            if depth == 1 and _CLASS_HIDING.search(re.sub(r"\s+", "", between).lower()):
                found |= {name for name in map(str.strip, selector.split(",")) if re.fullmatch(r"[.#][\w-]+", name)}
            depth = max(0, depth - 1)
    return found


def _declared_language(tree: HtmlElement) -> str | None:
    for value in (
        tree.get("lang"),
        tree.get("xml:lang"),
        tree.xpath("string(//meta[translate(@http-equiv,'CL','cl')='content-language']/@content)"),
        tree.xpath("string(//meta[@property='og:locale']/@content)"),
    ):
        if tag := language_tag(value or ""):
            return tag
    return None
