"""Remove text that a page's own styles hide, by computing a few CSS properties of each element.

Not covered: linked style sheets, scripts, animations, `var()`, nested rules, `:has()`, text covered by something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tinycss2  # type: ignore[import-untyped]
from cssselect2 import ElementWrapper, Matcher, compile_selector_list  # type: ignore[import-untyped]
from cssselect2.parser import SelectorError  # type: ignore[import-untyped]
from lxml.html import HtmlElement  # type: ignore[import-untyped]
from tinycss2.color4 import parse_color  # type: ignore[import-untyped]

MAX_CSS = 1_000_000  # characters, of all style elements of a page; a second or two of parsing
MAX_TESTS = 20_000_000  # selectors times elements
MAX_COMBINATORS = 4  # of one selector; each may multiply the work by the depth of the page
Style = dict[str, list[Any]]
_HIDDEN = (
    "//*[@popover or self::template or self::noscript or self::input or self::textarea or self::select or self::object"
    " or self::iframe or self::canvas or self::video or self::audio"
    " or translate(normalize-space(@aria-hidden),'TRUE','true')='true']"
)
_INLINE = {
    "a",
    "abbr",
    "b",
    "cite",
    "code",
    "em",
    "font",
    "i",
    "label",
    "mark",
    "q",
    "s",
    "small",
    "span",
    "strong",
    "u",
}
_PIXELS = {"px": 1, "em": 16, "rem": 16, "ex": 8, "ch": 8, "pt": 4 / 3, "pc": 16, "in": 96, "cm": 37.8, "mm": 3.78,
           "vw": 12.8, "vh": 8, "vmin": 8, "vmax": 12.8}  # fmt: skip
_OFF_SCREEN = 900  # pixels to the left or above
_KEPT_TAGS = ("html", "head", "body", "style")
_BLOCKS = ("media", "supports", "layer")


class StylesTooCostly(Exception):
    """A page has more CSS than is applied."""


def remove_hidden_text(tree: HtmlElement) -> None:
    """Remove elements and text that a browser would not show.

    Raises:
        StylesTooCostly: the page's CSS exceeds `MAX_CSS` or `MAX_TESTS`. Nothing is to be read from the page then.
    """
    matcher = _match_rules(tree)
    linked = bool(tree.xpath("//link[contains(translate(@rel,'STYLEHE','stylehe'),'stylesheet')]"))
    doomed = list(tree.xpath(_HIDDEN))
    silent: list[HtmlElement] = []
    inherited: dict[HtmlElement, Style] = {}
    for wrapper in ElementWrapper.from_html_root(tree).iter_subtree():
        element = wrapper.etree_element
        style = _style_of(wrapper, matcher)
        parent = inherited.get(
            element.getparent(), {} if linked else {"behind": [parse_color("white")]}
        )
        inherited[element] = passed_on = _pass_on(parent, style, linked)
        if _hides_subtree(element, style):
            doomed.append(element)
        elif _hides_own_text(passed_on):
            silent.append(element)
    for element in silent:
        element.text = None
        for child in element:
            child.tail = None
    for element in doomed:
        if element.tag not in _KEPT_TAGS and element.getparent() is not None:
            element.drop_tree()


def _match_rules(tree: HtmlElement) -> Matcher:
    sheets = [
        style
        for style in tree.iter("style")
        if (style.get("type") or "text/css").strip().lower() == "text/css"
    ]
    if sum(len(style.text or "") for style in sheets) > MAX_CSS:
        raise StylesTooCostly
    matcher = Matcher()
    count = 0
    for sheet in sheets:
        if not _is_screen(tinycss2.parse_component_value_list(sheet.get("media") or "all")):
            continue
        for rule in _iter_rules(tinycss2.parse_stylesheet(sheet.text or "", True, True)):
            if sum(1 for token in rule.prelude if token.type in ("whitespace", "literal")) > 200:
                continue
            try:
                selectors = compile_selector_list(
                    [token for token in rule.prelude if token.type != "comment"]
                )
            except (SelectorError, NotImplementedError, SyntaxError, RecursionError, MemoryError):
                continue
            values = _parse_declarations(rule.content)
            if not values:
                continue
            text = tinycss2.serialize(rule.prelude)
            if (
                ":has(" in text.lower()
                or max(map(_count_combinators, text.split(","))) > MAX_COMBINATORS
            ):
                continue
            for selector in selectors:
                matcher.add_selector(selector, values)
            count += len(selectors)
    if count * sum(1 for _ in tree.iter()) > MAX_TESTS:
        raise StylesTooCostly
    return matcher


def _count_combinators(selector: str) -> int:
    return len(selector.replace("~", " ").split()) - 1


def _iter_rules(rules: Sequence[Any], depth: int = 0) -> Iterator[Any]:
    for rule in rules:
        if rule.type == "qualified-rule":
            yield rule
        elif (
            rule.type == "at-rule"
            and rule.content
            and rule.lower_at_keyword in _BLOCKS
            and depth < 10
            and (rule.lower_at_keyword != "media" or _is_screen(rule.prelude))
        ):
            yield from _iter_rules(tinycss2.parse_rule_list(rule.content, True, True), depth + 1)


def _is_screen(prelude: Sequence[Any]) -> bool:
    """Return whether a media query names screens by type; one with conditions counts as not met."""
    text = tinycss2.serialize([token for token in prelude if token.type != "comment"]).lower()
    return any(
        each.strip() in ("", "all", "screen", "only screen", "only all", "not print")
        for each in text.split(",")
    )


def _parse_declarations(content: Any) -> list[tuple[str, list[Any], bool]]:
    return [
        (each.lower_name, _significant(each.value), each.important)
        for each in tinycss2.parse_blocks_contents(content, True, True)
        if each.type == "declaration"
    ]


def _significant(tokens: Sequence[Any]) -> list[Any]:
    return [token for token in tokens if token.type not in ("whitespace", "comment")]


def _style_of(wrapper: ElementWrapper, matcher: Matcher) -> Style:
    """Return the declared values of an element: an important one wins, then inline styles, then specificity."""
    element = wrapper.etree_element
    style: Style = {}
    important: Style = {}
    hidden = element.get("hidden") is not None or (
        element.tag == "dialog" and element.get("open") is None
    )
    if hidden:
        style["display"] = tinycss2.parse_component_value_list("none")
    for attribute, name in (("color", "color"), ("bgcolor", "background-color")):
        value = element.get(attribute)
        if value:
            style[name] = tinycss2.parse_component_value_list(value)
    declared = [
        values for *_, pseudo_element, values in matcher.match(wrapper) if pseudo_element is None
    ]
    for values in (*declared, _parse_declarations((element.get("style") or "")[:10_000])):
        for name, value, is_important in values:
            (important if is_important else style)[name] = value
    return style | important


def _words(style: Style, name: str) -> list[str]:
    return [token.lower_value for token in style.get(name, ()) if token.type == "ident"]


def _pixels(token: Any) -> float | None:
    """Return a length in pixels on a screen of 1280 × 800; None for percentages and whatever is no length."""
    if (
        token.type == "function"
        and token.lower_name == "calc"
        and len(inside := _significant(token.arguments)) == 1
    ):
        token = inside[0]
    if token.type == "number":
        return 0.0 if token.value == 0 else None
    return (
        token.value * _PIXELS[token.lower_unit]
        if token.type == "dimension" and token.lower_unit in _PIXELS
        else None
    )


def _length(style: Style, name: str) -> float | None:
    tokens = style.get(name, [])
    return _pixels(tokens[0]) if len(tokens) == 1 else None


def _share(token: Any) -> float | None:
    """Return a number or a percentage as a share of 1; None for anything else."""
    if (
        token.type == "function"
        and token.lower_name == "calc"
        and len(inside := _significant(token.arguments)) == 1
    ):
        token = inside[0]
    return (
        {"number": 1.0, "percentage": 0.01}[token.type] * token.value
        if token.type in ("number", "percentage")
        else None
    )


def _is_faint(tokens: Sequence[Any]) -> bool:
    return len(tokens) == 1 and (share := _share(tokens[0])) is not None and share <= 0.05


def _hides_subtree(element: HtmlElement, style: Style) -> bool:
    display = _words(style, "display")
    return (
        display == ["none"]
        or "hidden" in _words(style, "content-visibility")
        or _is_faint(style.get("opacity", ()))
        or (_is_faint(style.get("zoom", ())) and "zoom" in style)
        or any(
            _function_hides(token)
            for name in ("filter", "transform", "clip-path")
            for token in style.get(name, ())
        )
        or any(_is_faint([token]) for token in style.get("scale", ())[:2])
        or _is_off_screen(style)
        or (
            _is_clipped(style)
            and (element.tag not in _INLINE or bool(display) or _is_positioned(style))
        )
    )


def _is_positioned(style: Style) -> bool:
    return bool({"absolute", "fixed"} & {*_words(style, "position")})


def _is_clipped(style: Style) -> bool:
    """Return whether the box is (almost) empty and what flows over it is cut off."""
    clip = style.get("clip", [])
    if (
        _is_positioned(style)
        and clip
        and clip[0].type == "function"
        and clip[0].lower_name == "rect"
    ):
        edges = [_pixels(token) for token in _significant(clip[0].arguments) if token != ","]  # noqa: S105
        top, right, bottom, left = edges if len(edges) == 4 else (0, None, None, 0)
        if top is not None and bottom is not None and bottom <= top:
            return True
        if right is not None and left is not None and right <= left:
            return True
    if not {"hidden", "clip", "scroll", "auto"} & {
        word for name in ("overflow", "overflow-x", "overflow-y") for word in _words(style, name)
    }:
        return False
    for names, least, padding in (
        (
            ("height", "max-height", "block-size", "line-height"),
            "min-height",
            ("padding", "padding-top", "padding-bottom"),
        ),
        (
            ("width", "max-width", "inline-size"),
            "min-width",
            ("padding", "padding-left", "padding-right"),
        ),
    ):
        sizes = [_length(style, name) for name in names]
        room = any((_pixels(token) or 0) > 1 or token.type == "percentage" for name in (*padding, least)
                   for token in style.get(name, ()))  # fmt: skip
        if (
            any(
                size is not None and size <= 1
                for size in sizes[: len(names) - ("line-height" in names)]
            )
            and not room
        ):
            return True
        if "line-height" in names and sizes[-1] == 0 and not room:
            return True
    return False


def _is_off_screen(style: Style) -> bool:
    moved = {"absolute", "fixed", "relative"} & {*_words(style, "position")}
    lengths = {
        name: _length(style, name) or 0
        for name in ("left", "top", "right", "bottom", "margin-left", "margin-top")
    }
    if moved and (min(lengths["left"], lengths["top"], -lengths["right"], -lengths["bottom"]) <= -_OFF_SCREEN
                  or lengths["left"] >= 5000 or lengths["right"] <= -5000):  # fmt: skip
        return True
    translate = [_pixels(token) or 0 for token in style.get("translate", ())]
    return min(lengths["margin-left"], lengths["margin-top"], *translate) <= -_OFF_SCREEN


def _function_hides(token: Any) -> bool:
    """Return whether a function of `filter`, `transform` or `clip-path` leaves nothing to see."""
    if token.type != "function":
        return False
    name = token.lower_name
    inside = [each for each in _significant(token.arguments) if each != ","]
    shares = [_share(each) for each in inside]
    pixels = [_pixels(each) for each in inside]
    if name in ("opacity", "scale", "scalex", "scaley", "scale3d"):
        return any(share is not None and abs(share) <= 0.05 for share in shares[:2])
    if name in ("matrix", "matrix3d"):
        return bool(shares) and shares[0] == 0
    if name in ("translate", "translatex", "translatey", "translate3d"):
        return any(each is not None and not -_OFF_SCREEN < each < 5000 for each in pixels)
    if name in ("rotatex", "rotatey"):
        return any(
            each.type == "dimension" and each.lower_unit == "deg" and abs(each.value) == 90
            for each in inside
        )
    if name == "inset":
        cut = [
            share
            for each, share in zip(inside, shares, strict=True)
            if each.type == "percentage" and share is not None
        ]
        edges = (cut * 4)[:4] if len(cut) == 1 else (cut * 2)[:4]
        return len(edges) == 4 and (edges[0] + edges[2] >= 1 or edges[1] + edges[3] >= 1)
    if name in ("circle", "ellipse"):
        return (bool(shares) and shares[0] == 0) or (bool(pixels) and pixels[0] == 0)
    return (name == "polygon" and bool(shares) and all(share == 0 for share in shares)) or (
        name == "polygon" and bool(pixels) and all(each == 0 for each in pixels)
    )


def _pass_on(parent: Style, style: Style, linked: bool) -> Style:
    """Return the values of inherited properties of an element, and the colour `behind` its text if it is known."""
    own = dict(parent)
    for name in ("visibility", "color", "-webkit-text-fill-color", "font-size", "text-indent", "letter-spacing",
                 "text-shadow"):  # fmt: skip
        if name in style and not {"inherit", "unset"} & {*_words(style, name)}:
            own[name] = style[name]
    if "font" in style:
        own["font-size"] = [
            token for token in style["font"] if token.type in ("dimension", "number")
        ][:1]
    background = [
        token
        for name in ("background", "background-color", "background-image")
        for token in style.get(name, ())
    ]
    if _is_positioned(style) or linked:
        own.pop("behind", None)
    if any(
        token.type in ("url", "function") and parse_color(token) is None for token in background
    ):
        own.pop("behind", None)
        own["picture"] = background
    else:
        for token in background:
            color = parse_color(token)
            if color is not None and color != "currentcolor":
                if color.alpha > 0.9:
                    own["behind"] = [color]
                    own.pop("picture", None)
                elif color.alpha > 0.05:
                    own.pop("behind", None)
    return own


def _hides_own_text(style: Style) -> bool:
    size, indent, spacing = (
        _length(style, name) for name in ("font-size", "text-indent", "letter-spacing")
    )
    share = style.get("font-size", [])
    if {"hidden", "collapse"} & {*_words(style, "visibility")} or (size is not None and size < 2):
        return True
    if len(share) == 1 and share[0].type == "percentage" and share[0].value < 10:
        return True
    if (indent is not None and indent <= -_OFF_SCREEN) or (spacing is not None and spacing <= -12):
        return True
    value = style.get("-webkit-text-fill-color") or style.get("color", [])
    color = parse_color(value[0]) if len(value) == 1 else None
    if color is None or color == "currentcolor" or "text-shadow" in style or "picture" in style:
        return False
    if color.alpha <= 0.05:
        return True
    behind = style.get("behind")
    if not behind:
        return False
    distance = max(
        abs(a - b)
        for a, b in zip(color.to("srgb").coordinates, behind[0].to("srgb").coordinates, strict=True)
    )
    return bool(color.alpha > 0.9 and distance < 0.04)
