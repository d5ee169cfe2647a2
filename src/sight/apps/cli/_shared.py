"""Consoles, error messages, progress bars and parsing shared by all commands."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from sight.types import Warning, worst_first

# The networks are small: a second thread costs more than it gains, far more if other processes run.
os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Characters that move the cursor, change the terminal or reorder text, and what is printed instead.
CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
CONTROL |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


#: Exit code under --strict if a warning is an error.
STRICT = 3


class PlainConsole(Console):
    """Console that prints control characters visibly: text from files cannot send commands to the terminal.

    Names such as ``:x:`` are printed as they are, not as emoji.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text without control characters; every text that is printed passes here."""
        return super().render_str(text.translate(CONTROL), **options)


console = PlainConsole()
errors = PlainConsole(stderr=True)

#: Extra that installs a package which the base install lacks.
EXTRAS = {
    **dict.fromkeys(("torch", "onnx", "onnxscript"), "train"),
    "numba": "fast",
    **dict.fromkeys(("scipy", "pandas", "pyarrow", "pooch", "actfast", "openpyxl"), "data"),
    **dict.fromkeys(("joblib", "duckdb"), "cohort"),
    "matplotlib": "bench",
    "distributed": "dask",
    **dict.fromkeys(("paho", "serial"), "live"),
    **dict.fromkeys(("fastapi", "uvicorn", "websockets", "redis", "prometheus_client", "pydantic"), "serve"),
}
#: Text that is added to the error for a missing package.
HINTS = {
    "torch": " (Linux: several GB of CUDA; without a GPU, install torch first: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu)"
}


class ErrorReportingGroup(TyperGroup):
    """Command group that reports input errors as one line with exit code 2; ``SIGHT_DEBUG=1`` shows tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has closed it
            close_stdout()
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):  # subclasses of RuntimeError that end a command normally
            raise
        except (ValueError, TypeError, OSError, ModuleNotFoundError, RuntimeError, ArithmeticError) as error:
            if os.environ.get("SIGHT_DEBUG"):
                raise
            errors.print(f"[bold red]sight:[/] {escape(error_message(error))}", highlight=False, soft_wrap=True)
            raise typer.Exit(2) from None


def error_message(error: Exception) -> str:
    """Return one line with what was wrong and what to do."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        wanted = f"sight-har[{EXTRAS[package]}]" if package in EXTRAS else package
        return f'This needs the package {package}; install it with: pip install "{wanted}"{HINTS.get(package, "")}'
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"There is no file {error.filename!s}; check the path."
    if isinstance(error, UnicodeEncodeError):
        return "A name contains bytes that are not UTF-8, so it cannot be written; rename the file."
    message = " ".join(str(error).split()) or type(error).__name__
    # Messages of Python itself contain no remedy.
    return f"{message}; SIGHT_DEBUG=1 shows where." if isinstance(error, ArithmeticError) else message


def close_stdout() -> None:
    """Discard further output, so that Python does not fail while it flushes a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Any]:
    """Show a progress bar, or without a terminal a line at the first and at every quarter; `unit` is what is counted.

    Yields a function that takes the number of finished items and an optional note.
    """
    label = escape(label.translate(CONTROL))
    if not console.is_terminal:
        yield _quarterly_lines(label, total, unit)
        return
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    counts = (BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(TextColumn("{task.description}"), *counts, *times, console=console) as bar:
        task = bar.add_task(label, total=total)

        def show(done: int, note: str = "") -> None:
            bar.update(task, completed=done, description=f"{label} {escape(note.translate(CONTROL))}".rstrip())

        yield show


def _quarterly_lines(label: str, total: int, unit: str) -> Any:
    printed = -1

    def show(done: int, note: str = "") -> None:
        nonlocal printed
        if total and 4 * done // total > printed:
            printed = 4 * done // total
            console.print(f"{label}: {done:,} of {total:,} {unit} {escape(note)}".rstrip(), highlight=False)

    return show


def print_warnings(name: str, warnings: Iterable[Warning]) -> None:
    """Print warnings with their severity, the worst first."""
    colours = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for warning in worst_first(warnings):
        colour = colours[warning.severity]
        text = f"{escape(name)}: [{colour}]{warning.severity}:[/] {escape(str(warning))}"
        errors.print(text, highlight=False, soft_wrap=True)


def first_names(names: Sequence[str]) -> str:
    """Return at most ten names in one line."""
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def exit_if_strict(strict: bool, names: Sequence[str]) -> None:
    """Exit with code 3 if `strict` and there are recordings whose numbers cannot be used."""
    if strict and names:
        found = f"{plural(len(names), 'recording')} with an error: {first_names(names)}"
        text = f"{found}; their numbers cannot be used (--strict)."
        errors.print(text, markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(STRICT)


def print_facts(title: str, facts: Mapping[str, Any], *, as_json: bool = False) -> None:
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str))
        return
    table = Table(title=escape(title), show_header=False)
    for key, value in facts.items():
        table.add_row(escape(key.replace("_", " ")), escape(_fact_text(value)))
    console.print(table)


def _fact_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_fact_text(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        text = ", ".join(str(item) for item in value[:12])
        return text + (f", ... ({len(value)} in all)" if len(value) > 12 else "")
    return str(value)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def parse_pairs(texts: Iterable[str], expected: str) -> dict[str, str]:
    """Parse KEY=VALUE texts."""
    pairs = [text.partition("=") for text in texts]
    for key, equals, value in pairs:
        if not equals:
            raise ValueError(f"Expected {expected}, got {key + value!r}.")
    return {key.strip(): value.strip() for key, _, value in pairs}
