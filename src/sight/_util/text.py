"""Texts of messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def choices(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: "choose from a, b. Did you mean 'a'?"."""
    known = list(known)
    near = get_close_matches(wrong, known, n=1)
    return f"choose from {', '.join(known) or 'none'}." + (f" Did you mean {near[0]!r}?" if near else "")
