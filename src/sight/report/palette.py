"""Colours of classes, distinguishable with colour-vision deficiencies, on paper and on dark screens."""

from __future__ import annotations

#: (on light, on dark). Blue, orange, green, rose, sky, vermilion, ochre, grey, then darker variants.
COLOURS = (
    ("#0072b2", "#3b97d3"),
    ("#e69f00", "#eaa92a"),
    ("#009e73", "#1fb48b"),
    ("#cc79a7", "#d58fb6"),
    ("#56b4e9", "#86cbf2"),
    ("#d55e00", "#e87a33"),
    ("#b8a800", "#d9cb3a"),
    ("#7d828a", "#9aa0a8"),
    ("#332288", "#8577d9"),
    ("#882255", "#c0608f"),
    ("#117733", "#4da266"),
    ("#8c6d4f", "#b8977a"),
)


def colour(index: int) -> tuple[str, str]:
    """Return the colour of a class on light and on dark; beyond the table, hues a golden angle apart.

    Examples
    --------
    >>> colour(0)
    ('#0072b2', '#3b97d3')
    >>> colour(12) != colour(13)
    True
    """
    if index < len(COLOURS):
        return COLOURS[index]
    hue = round(index * 137.508) % 360
    lightness = (34, 46, 58)[index % 3]
    return f"hsl({hue} 45% {lightness}%)", f"hsl({hue} 45% {lightness + 14}%)"


def stylesheet(count: int) -> str:
    """Return CSS custom properties with the colours of `count` classes; print uses the light ones.

    Examples
    --------
    >>> stylesheet(1)
    ':root{--k0:#0072b2}@media screen and (prefers-color-scheme:dark){:root{--k0:#3b97d3}}.k0{--k:var(--k0)}'
    """
    light, dark = (";".join(f"--k{i}:{colour(i)[scheme]}" for i in range(count)) for scheme in (0, 1))
    rules = "".join(f".k{i}{{--k:var(--k{i})}}" for i in range(count))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{rules}"
