"""What all commands share: one console, one way to fail, progress bars, parsing of ``--set``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from typer.core import TyperGroup

# These networks are too small to share between cores: a second thread costs more than it brings, many times more where
# something else runs beside it. Whoever knows better sets the variable.
os.environ.setdefault("OMP_NUM_THREADS", "1")

console = Console()
errors = Console(stderr=True)

#: Which extra brings a package that is not in the base install.
EXTRAS = {
    "torch": "train",
    "onnx": "train",
    "onnxscript": "train",
    "numba": "fast",
    "scipy": "data",
    "pandas": "data",
    "pyarrow": "data",
    "pooch": "data",
    "actfast": "data",
    "joblib": "bench",
    "matplotlib": "bench",
    "duckdb": "bench",
    "distributed": "dask",
    "paho": "stream",
    "serial": "stream",
    "fastapi": "serve",
    "uvicorn": "serve",
    "websockets": "serve",
    "redis": "serve",
    "prometheus_client": "serve",
    "pydantic": "serve",
}


class Friendly(TyperGroup):
    """Turns mistakes of input into one sentence and exit code 2; ``SIGHT_DEBUG=1`` shows the traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and say in one sentence what was wrong with its input."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever listened has heard enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):  # errors of run time by their class, the end of a command by their meaning
            raise
        except (ValueError, TypeError, OSError, ModuleNotFoundError, RuntimeError, ArithmeticError) as error:
            if os.environ.get("SIGHT_DEBUG"):
                raise
            errors.print(f"[bold red]sight:[/] {_escape(sentence(error))}", highlight=False, soft_wrap=True)
            raise typer.Exit(2) from None


def sentence(error: Exception) -> str:
    """Say what happened and what to do.

    Examples
    --------
    >>> sentence(ModuleNotFoundError("No module named 'torch'", name="torch"))
    'This needs the package torch; install it with: pip install "sight-har[train]"'
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        wanted = f"sight-har[{EXTRAS[package]}]" if package in EXTRAS else package
        return f'This needs the package {package}; install it with: pip install "{wanted}"'
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"There is no file {error.filename!s}; check the path."
    told = " ".join(str(error).split()) or type(error).__name__
    # Python's own words for it name no remedy; no sentence of this package is of this class.
    return f"{told}; SIGHT_DEBUG=1 shows where." if isinstance(error, ArithmeticError) else told


def _escape(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def progress(label: str, total: int) -> Iterator[Any]:
    """Show a bar with time left, or lines where there is no terminal; gives a function that takes the number done."""
    if not console.is_terminal:
        yield _lines(label, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, note="": bar.update(task, completed=done, description=f"{label} {note}".rstrip())


def _lines(label: str, total: int) -> Any:
    """Print a line at every quarter, so that a log tells how far things are."""
    told = 0

    def show(done: int, note: str = "") -> None:
        nonlocal told
        if total and 4 * done // total > told:
            told = 4 * done // total
            console.print(f"{label}: {done} of {total} {note}".rstrip(), highlight=False)

    return show


def make_adapter(name: str, assignments: list[str] | None = None, preset: str | None = None) -> Any:
    """Make a method from its name, a preset and ``--set`` texts."""
    from sight import params, registry

    return registry.method(name, preset, **params.parse(registry.get("methods", name), assignments or []))
