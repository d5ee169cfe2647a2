"""HTML elements with escaping by default, and formatted numbers."""

import re
from collections.abc import Iterable
from html import escape
from math import isfinite
from typing import Any

#: Spaces between a number and its unit, and between two of them.
UNITS = re.compile(r"(?<=\d) (?=(?:h|min|s|d|mg|mm)\b)|(?<=\d (?:h|d)) (?=\d)|(?<=\d min) (?=\d)|(?<=\d %) (?=\d)")


class Html(str):
    """Text that is markup already; any other text is escaped when it is put into an element."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: Any) -> Html:
    """Return one element.

    In attribute names a trailing underscore is dropped and other underscores become hyphens. Attributes that are None
    or False are omitted; True gives an attribute without a value.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            attribute = key.rstrip("_").replace("_", "-")
            parts.append(attribute if value is True else f'{attribute}="{escape(str(value))}"')
    start = f"<{' '.join(parts)}>"
    return Html(start if name in ("br", "col", "img") else f"{start}{join(children)}</{name}>")


def join(children: Iterable[object], between: str = "") -> Html:
    """Concatenate children, escaping those that are not markup and skipping None."""
    shown = (child for child in children if child is not None)
    return Html(escape(between).join(child if isinstance(child, Html) else escape(str(child)) for child in shown))


def svg(paths: Iterable[Html], width: int, height: int, label: str, **attributes: Any) -> Html:
    """Return a drawing that is stretched to the size of its place; `label` describes it to screen readers."""
    fixed = {"viewBox": f"0 0 {width} {height}", "preserveAspectRatio": "none", "role": "img", "aria_label": label}
    return tag("svg", *paths, **fixed, **attributes)


def unbroken(page: Html) -> Html:
    r"""Return a page on which numbers and their units, such as "2 h 46 min", stay on one line.

    >>> str(unbroken(tag("p", "2 h 46 min a day", title="2 h"))).replace("\xa0", "_")
    '<p title="2 h">2_h_46_min a day</p>'
    """
    return Html(re.sub(r">[^<]+", lambda text: UNITS.sub("\xa0", text[0]), page))


def legend_list(entries: Iterable[tuple[str, Html]]) -> Html:
    """Return a list of colours, each with its CSS class and its text."""
    items = (tag("li", tag("i", class_=f"swatch {kind}"), text, class_="entry") for kind, text in entries)
    return tag("ul", *items, class_="legend", aria_label="Legend")


def table(head: Iterable[Html], rows: Iterable[Html], *, label: str, class_: str, foot: Html | None = None) -> Html:
    """Return a table with a header row, in a region that scrolls sideways; `label` names the region."""
    parts = [tag("thead", tag("tr", *head)), tag("tbody", *rows), tag("tfoot", foot) if foot else None]
    return scrolling(tag("table", *parts, class_=class_), label)


def scrolling(content: Html, label: str) -> Html:
    """Put a wide table into a region that scrolls sideways, by keyboard too, so that the page does not."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)


def header(text: object, *, number: bool = False) -> Html:
    return tag("th", text, scope="col", class_="number" if number else None)


def percent(share: float) -> str:
    """Format a share of one as percent, with a non-breaking space before the sign."""
    if 0 < share < 0.0005:
        return "<\xa00.1\xa0%"
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}\xa0%"


def figure(value: object, digits: int = 3) -> str:
    """Format a table entry: integers with separators, floats rounded, missing values as a dash."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
