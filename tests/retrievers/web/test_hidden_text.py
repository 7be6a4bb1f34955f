"""Ways to hide words on a page, each beside a page that looks like it and shows them."""

from __future__ import annotations

import lxml.html  # type: ignore[import-untyped]
import pytest

from tribunal.retrievers.web import hidden_text
from tribunal.retrievers.web.hidden_text import remove_hidden_text
from tribunal.retrievers.web.page_parsing import extract_html
from tribunal.retrievers.web.page_reader import PageUnreadable

WORDS = "A welcome to everybody."
# Inline styles: one that hides, and one like it that does not.
STYLES = [
    ("display:none", "display:inline-block"),
    ("display:n\\6fne", "display:bl\\6fck"),
    ("display:/**/none", "display:/* none */block"),
    ("DISPLAY : NONE !important", "--display:none"),
    ("display:block;display:none", "display:none;display:block"),
    ("display:none!important;display:block", "display:none;display:block!important"),
    ("visibility:hidden", "visibility:visible"),
    ("visibility:collapse", "visibility:inherit"),
    ("content-visibility:hidden", "content-visibility:auto"),
    ("opacity:0", "opacity:0.9"),
    ("opacity:0%", "opacity:90%"),
    ("opacity:.01", "opacity:.6"),
    ("opacity:calc(0)", "opacity:calc(1)"),
    ("filter:opacity(0)", "filter:opacity(1)"),
    ("filter:blur(0) opacity(0%)", "filter:blur(0) opacity(80%)"),
    ("color:transparent", "color:black"),
    ("color:rgba(0,0,0,0)", "color:rgba(0,0,0,.8)"),
    ("color:rgb(0 0 0 / 1%)", "color:rgb(0 0 0 / 70%)"),
    ("color:#0000", "color:#000f"),
    ("color:#12345600", "color:#123456"),
    ("color:hsla(0,0%,0%,0)", "color:hsla(0,0%,0%,1)"),
    ("-webkit-text-fill-color:transparent", "-webkit-text-fill-color:black"),
    ("color:white", "color:white;background:black"),
    ("color:#fefefe", "color:#fefefe;background:url(night.jpg)"),
    ("color:black;background:#000", "color:black;background:#ddd"),
    ("color:#111;background-color:#111", "color:#eee;background-color:#111"),
    ("color:navy;background:navy", "color:navy;background:linear-gradient(navy, white)"),
    ("color:white;position:static", "color:white;position:absolute"),
    ("color:white;text-indent:1em", "color:white;text-shadow:0 0 3px black"),
    ("font-size:0", "font-size:12px"),
    ("font-size:1px", "font-size:10px"),
    ("font-size:0.01em", "font-size:0.9em"),
    ("font-size:1%", "font-size:80%"),
    ("font-size:calc(0px)", "font-size:calc(14px)"),
    ("font:0/0 serif", "font:14px/1 serif"),
    ("height:0;overflow:hidden", "height:0"),
    ("max-height:0;overflow:hidden", "max-height:120px;overflow:hidden"),
    ("width:0;overflow:hidden", "width:0"),
    ("width:1px;height:1px;overflow:hidden", "width:1px;height:1px"),
    ("width:0;overflow-x:clip", "width:100px;overflow-x:clip"),
    ("height:0px;overflow:clip", "height:0;padding-top:56.25%;overflow:hidden"),
    ("line-height:0;overflow:hidden", "line-height:0"),
    ("height:0;overflow:hidden;min-height:0", "height:0;overflow:hidden;min-height:40px"),
    ("transform:scale(0)", "transform:scale(1.2)"),
    ("transform:scaleX(0)", "transform:scaleX(-1)"),
    ("transform:scale(1,0)", "transform:scale(1,2)"),
    ("transform:scale3d(0,1,1)", "transform:scale3d(1,1,1)"),
    ("transform:matrix(0,0,0,0,0,0)", "transform:matrix(1,0,0,1,0,0)"),
    ("transform:rotateY(90deg)", "transform:rotateY(20deg)"),
    ("transform:translate(-9999px)", "transform:translate(-50%,-50%)"),
    ("transform:translateX(-300vw)", "transform:translateX(10px)"),
    ("transform:translateY(-9999px)", "transform:translateY(-20px)"),
    ("scale:0", "scale:1"),
    ("translate:-9999px 0", "translate:-10px 0"),
    ("zoom:.01", "zoom:1.5"),
    ("zoom:1%", "zoom:120%"),
    ("position:absolute;left:-9999px", "left:-9999px"),
    ("position:fixed;top:-200em", "position:fixed;top:0"),
    ("position:absolute;right:9999px", "position:absolute;right:10px"),
    ("position:relative;left:-300cm", "position:relative;left:-10px"),
    ("margin-left:-9999px", "margin-left:-10px"),
    ("text-indent:-9999px", "text-indent:-10px"),
    ("text-indent:-999em", "text-indent:2em"),
    ("letter-spacing:-1em", "letter-spacing:-1px"),
    ("position:absolute;clip:rect(0,0,0,0)", "clip:rect(0,0,0,0)"),
    (
        "position:absolute;clip:rect(1px 1px 1px 1px)",
        "position:absolute;clip:rect(0px,600px,200px,0px)",
    ),
    ("clip-path:inset(50%)", "clip-path:inset(5%)"),
    ("clip-path:inset(100% 0 0 0)", "clip-path:inset(10px 0 0 0)"),
    ("clip-path:circle(0)", "clip-path:circle(90%)"),
    ("clip-path:polygon(0 0,0 0,0 0)", "clip-path:polygon(0 0,100% 0,100% 100%,0 100%)"),
]
# Rules, for <main class="a b" id="m" data-note="x y"><p class="c">: one that hides and one that does not.
RULES = [
    (".c{display:none}", ".d{display:none}"),
    (".a.b .c{display:none}", ".a.z .c{display:none}"),
    ("main>p{display:none}", "main>div{display:none}"),
    ("p.c:first-child{display:none}", "p.c:nth-child(2){display:none}"),
    ("[data-note]{display:none}", "[data-other]{display:none}"),
    ("[data-note~=x]{display:none}", "[data-note~=z]{display:none}"),
    ('[class^="a"]{display:none}', '[class^="b"]{display:none}'),
    ("[DATA-NOTE='X Y' i]{display:none}", "[data-note='X Y']{display:none}"),
    ("main:not(.z){display:none}", "main:not(.a){display:none}"),
    (":is(.z,.a) p{display:none}", ":is(.z,.y) p{display:none}"),
    ("\\.c,.\\63{display:none}", ".\\64{display:none}"),
    ("@media all{.c{display:none}}", "@media print{.c{display:none}}"),
    ("@media screen{.c{display:none}}", "@media not screen{.c{display:none}}"),
    (
        "@media only screen{@supports(display:grid){.c{opacity:0}}}",
        "@media print{@supports(display:grid){.c{opacity:0}}}",
    ),
    ("@layer x{.c{display:none}}", "@layer x{.c::before{display:none}}"),
    ("#m .c{display:none} .c{display:block}", "#m .c{display:block} .c{display:none}"),
    (".c{display:none!important} #m .c{display:block}", ".c{display:none} .c{display:block}"),
    ("/* } */ .c{display:none}", "/* .c{display:none} */"),
    ("main{color:#fff}", "main{color:#fff} body{background:#000}"),
    ("body{background:#123;color:#123}", "body{background:#123;color:#eee}"),
    ("main{visibility:hidden}", "main{visibility:hidden} .c{visibility:visible}"),
    ("main{font-size:0}", "main{font-size:0} .c{font-size:16px}"),
    ("broken{{;}} .z{a:b} .c{display:none}", ".c{display:none"[:-4]),
]
TAGS = [
    ("<p hidden>{}</p>", "<p hidden style='display:block'>{}</p>"),
    ("<p aria-hidden='TRUE'>{}</p>", "<p aria-hidden='false'>{}</p>"),
    ("<dialog>{}</dialog>", "<dialog open>{}</dialog>"),
    ("<p popover>{}</p>", "<p>{}</p>"),
    ("<canvas>{}</canvas>", "<div>{}</div>"),
    (
        "<body bgcolor=red><font color=red>{}</font>",
        "<body bgcolor=red><font color=white>{}</font>",
    ),
    (
        "<style media=screen>p{opacity:0}</style><p>{}</p>",
        "<style media=print>p{opacity:0}</style><p>{}</p>",
    ),
    (
        "<p style='color:#fff'>{}</p>",
        "<link rel=stylesheet href=dark.css><p style='color:#fff'>{}</p>",
    ),
    (
        "<div style='height:0;overflow:hidden'>{}</div>",
        "<span style='height:0;overflow:hidden'>{}</span>",
    ),
]
PAIRS = [
    *(
        (f'<p style="{hiding}">{{}}</p>', f'<p style="{showing}">{{}}</p>')
        for hiding, showing in STYLES
    ),
    *(
        tuple(
            f'<style>{rule}</style><body><main class="a b" id="m" data-note="x y"><p class="c">{{}}</p></main>'
            for rule in pair
        )
        for pair in RULES
    ),
    *TAGS,
]


def shown(page: str) -> str:
    tree = lxml.html.document_fromstring(
        f"<!doctype html>{page.replace('{}', WORDS)}<footer>After it.</footer>"
    )
    remove_hidden_text(tree)
    return str(tree.text_content())


@pytest.mark.parametrize("page", [hiding for hiding, _ in PAIRS])
def test_hidden_words_are_removed(page: str) -> None:
    assert WORDS not in shown(page)


@pytest.mark.parametrize("page", [showing for _, showing in PAIRS])
def test_visible_words_are_kept(page: str) -> None:
    assert WORDS in shown(page)


def test_words_after_a_hidden_element_are_kept() -> None:
    assert "After it." in shown("<p>{}</p><b hidden>x</b>")


@pytest.mark.parametrize(("limit", "value"), [("MAX_CSS", 100), ("MAX_TESTS", 10)])
def test_a_page_with_costly_styles_is_not_read(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_text, limit, value)
    page = f"<style>{'p{opacity:0}' * 20}</style><p>{WORDS}</p>"
    with pytest.raises(PageUnreadable) as caught:
        extract_html(page.encode(), "utf-8", 10)
    assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    "sheet",
    [
        "p{" + "(" * 5000,
        "* " * 3000 + "{display:none}",
        ":is(" * 300 + "p" + ")" * 300 + "{color:red}",
        "@media all{" * 300,
        "p:unknown(3){display:none}",
        "*|p[*|x]{display:none}",
    ],
)
def test_strange_styles_are_skipped(sheet: str) -> None:
    assert WORDS in shown(f"<style>{sheet}</style><p>{{}}</p>")
