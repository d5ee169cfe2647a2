"""``sight bench``: speed now, tables of the paper as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure: speed of every method beside the paper's numbers.")


@app.callback()
def _group() -> None:
    pass


@app.command()
def speed(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the figures.")] = Path("out/speed.json"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions; for a look, not for a table.")] = False,
) -> None:
    """Time every method at the shapes of HARTH and CAPTURE-24, one thread, ratios in one run.

    [bold]Example[/]

      sight bench speed --quick
    """
    from sight.bench.speed import speed as measure

    measure(out=out, quick=quick)
