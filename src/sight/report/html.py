"""Markup that escapes by default, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import isfinite
from typing import Any


class Html(str):
    """Text that is markup already; anything else is escaped on its way into a tag."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: Any) -> Html:
    """Write one element; a trailing underscore of an attribute is dropped, the others become hyphens.

    Attributes that are None or False are left out, True stands alone.

    Examples
    --------
    >>> tag("p", "a < b", tag("br"), class_="note", aria_label='say "hi"', hidden=True)
    '<p class="note" aria-label="say &quot;hi&quot;" hidden>a &lt; b<br></p>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            attribute = key.rstrip("_").replace("_", "-")
            parts.append(attribute if value is True else f'{attribute}="{escape(str(value))}"')
    start = f"<{' '.join(parts)}>"
    return Html(start if name in ("br", "col", "img") else f"{start}{join(children)}</{name}>")


def join(children: Iterable[object], between: str = "") -> Html:
    """Put pieces one after another, escaping those that are not markup; None is nothing."""
    return Html(escape(between).join(_safe(child) for child in children if child is not None))


def _safe(child: object) -> str:
    return child if isinstance(child, Html) else escape(str(child))


def duration(seconds: float) -> str:
    """Name a length of time with its two largest units.

    Examples
    --------
    >>> [duration(s) for s in (0.5, 42, 305, 7500, 8 * 86400 + 7200)]
    ['0.5 s', '42 s', '5 min 05 s', '2 h 05 min', '8 d 2 h']
    """
    if seconds < 59.5:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"


def percent(share: float) -> str:
    r"""Name a share of one; a space that does not break keeps the sign with its number.

    Examples
    --------
    >>> percent(0.1234), percent(1), percent(0), percent(0.0004)
    ('12.3\xa0%', '100\xa0%', '0\xa0%', '<\xa00.1\xa0%')
    """
    if 0 < share < 0.0005:
        return "<\xa00.1\xa0%"
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}\xa0%"


def size(count: float) -> str:
    """Name a number of bytes.

    Examples
    --------
    >>> size(512), size(3300), size(5_000_000)
    ('512 B', '3.2 KiB', '4.8 MiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def figure(value: object, digits: int = 3) -> str:
    """Write any value of a table: whole numbers with separators, others rounded, nothing as a dash.

    Examples
    --------
    >>> [figure(v) for v in (12345, 0.98765, None, float("nan"), True, "chunk32")]
    ['12,345', '0.988', '–', '–', 'yes', 'chunk32']
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)
