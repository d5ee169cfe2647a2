"""Progress bar in notebooks and terminals; nothing is shown elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import Any

#: Takes a label and a total, and gives a function that takes the number of finished items.
Bar = Callable[[str, int], AbstractContextManager[Callable[[int], Any]]]


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar in a notebook or a terminal; yield a function that takes the number of finished items."""
    if in_notebook():
        from IPython.display import HTML, display

        shown = display(HTML(_html(label, 0, total)), display_id=True)
        yield lambda done: shown.update(HTML(_html(label, done, total)))
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


def _html(label: str, done: int, total: int) -> str:
    return f'{escape(label)} <progress value="{done}" max="{max(total, 1)}"></progress> {done:,} of {total:,} windows'
