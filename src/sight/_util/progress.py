"""Progress bar in notebooks and terminals; nothing is shown elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import Any, TypeAlias

#: Takes a label, a total and what is counted, and gives a function that takes the number of finished items.
Bar: TypeAlias = Callable[[str, int, str], AbstractContextManager[Callable[[int], Any]]]
#: Takes the share that is done, from 0 to 1.
OnShare: TypeAlias = Callable[[float], object]


@contextmanager
def begin(bar: Bar | None, label: str, total: int, unit: str) -> Iterator[Callable[[int], Any]]:
    """Start a bar at zero; yield a function that takes the number of finished items, and does nothing without a bar."""
    if bar is None:
        yield lambda done: None  # noqa: ARG005
        return
    with bar(label, total, unit) as show:
        show(0)
        yield show


@contextmanager
def progress_bar(label: str, total: int, unit: str) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar in a notebook or a terminal; yield a function that takes the number of finished items."""
    if in_notebook():
        from IPython.display import HTML, display

        shown = display(HTML(_html(label, 0, total, unit)), display_id=True)
        yield lambda done: shown.update(HTML(_html(label, done, total, unit)))
        shown.update(HTML(""))
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label.replace("[", r"\["), total=total)
        yield lambda done: bar.update(task, completed=done)


def in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def _html(label: str, done: int, total: int, unit: str) -> str:
    shown = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
    return f"{escape(label)} {shown} {done:,} of {total:,} {unit}"
